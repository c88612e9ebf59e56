// Search in pages that are opened as files, where browsers allow no workers: the program of the
// search runs in an invisible frame of the page instead. Pages of a server use a real worker.

class FrameWorker extends EventTarget {
  constructor(address) {
    super();
    this.waiting = [];
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    this.frame.addEventListener("load", () => this.start(address), { once: true });
    document.body.append(this.frame);
  }

  start(address) {
    const inside = this.frame.contentWindow;
    inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    inside.importScripts = async (...names) => {
      for (const name of names) await this.load(new URL(name, address));
    };
    this.load(address).then(() => {
      const waiting = this.waiting;
      this.waiting = null;
      waiting.forEach((data) => this.postMessage(data));
    });
  }

  load(address) {
    return new Promise((loaded, failed) => {
      const script = this.frame.contentDocument.createElement("script");
      script.src = address;
      script.onload = loaded;
      script.onerror = failed;
      this.frame.contentDocument.body.append(script);
    });
  }

  postMessage(data) {
    if (this.waiting) this.waiting.push(data);
    else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker;
