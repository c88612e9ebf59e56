"""Independent oracles: the model of one sentence as loops in NumPy float64, from the paper.

Nothing here is batched, padded, hoisted out of a loop or shared with the package but the names of
the parameters. One sentence is a list of ids that ends in EOS.
"""

import numpy as np

START = -1


def f64(tree):
    if hasattr(tree, "items"):
        return {name: f64(leaf) for name, leaf in tree.items()}
    return np.asarray(tree, np.float64)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def embed(p, word):
    if word == START:
        return np.zeros(p["E"].shape[1])
    return p["E"][word] + p.get("b", 0)


def gru(p, h, **inputs):
    """One step; inputs by the name of their matrix: W=x, and C=c in the decoder."""
    x, x_z, x_r = (
        sum(v @ p[f"{name}{gate}"] for name, v in inputs.items()) for gate in ("", "_z", "_r")
    )
    z = sigmoid(x_z + h @ p["U_z"] + p.get("b_z", 0))
    r = sigmoid(x_r + h @ p["U_r"] + p.get("b_r", 0))
    candidate = np.tanh(x + (r * h) @ p["U"] + p["b"])
    return (1 - z) * h + z * candidate


def tanh_cell(p, h, **inputs):
    return np.tanh(sum(v @ p[name] for name, v in inputs.items()) + h @ p["U"] + p["b"])


def mlp_cell(p, h, **inputs):
    """tanh(M_x(x) + M_h(h)), where x has all inputs side by side: so do the rows of its matrix."""
    x = np.concatenate([np.zeros(0), *inputs.values()])
    W = np.concatenate([np.zeros((0, len(p["b"]))), *(p[name] for name in inputs)])
    of_x = np.maximum(x @ W + p["b"], 0) @ p["W_2"] + p["b_2"]
    of_h = np.maximum(h @ p["U"] + p["b_u"], 0) @ p["U_2"] + p["b_u2"]
    return np.tanh(of_x + of_h)


CELLS = {"gru": gru, "tanh": tanh_cell, "mlp": mlp_cell}


def encode(config, params, source):
    """Annotations, a list of [C], and s_0."""
    cell, size = CELLS[config.cell], config.hidden_size
    words = [embed(params["source_embedding"], word) for word in source]
    runs = {}
    for name in ["forward", "backward"][: len(params["encoder"])]:
        p, h, states = params["encoder"][name], np.zeros(size), []
        for x in words if name == "forward" else reversed(words):
            h = cell(p, h, W=x)
            states.append(h)
        runs[name] = states if name == "forward" else states[::-1]
    if config.word_annotations:
        runs["words"] = words
    annotations = [np.concatenate(parts) for parts in zip(*runs.values(), strict=True)]
    if config.initial_state == "zero":
        return annotations, np.zeros(size)
    p = params["initial_state"]
    end = runs["backward"][0] if config.initial_state == "backward" else runs["forward"][-1]
    return annotations, np.tanh(end @ p["W_s"] + p["b_s"])


def energy(config, p, s, h, last, covered):
    size = config.hidden_size
    states = h[: -config.embedding_size] if config.word_annotations else h
    both = sum(states[i : i + size] for i in range(0, len(states), size))
    return {
        "additive": lambda: np.tanh(s @ p["W_a"] + h @ p["U_a"]) @ p["v_a"],
        "additive_relu": lambda: np.maximum(s @ p["W_a"] + h @ p["U_a"], 0) @ p["v_a"],
        "additive_coverage": lambda: (
            np.tanh(s @ p["W_a"] + h @ p["U_a"] + covered * p["V_c"]) @ p["v_a"]
        ),
        "dot": lambda: s @ both,
        "scaled_dot": lambda: s @ both / np.sqrt(size),
        "general": lambda: s @ p["W"] @ h,
        "local_m": lambda: s @ p["W"] @ h,
        "local_p": lambda: s @ p["W"] @ h,
        "none": lambda: 0.0 if last else -np.inf,
    }[config.attention]()


def attend(config, p, s, annotations, i, covered):
    """The context c [C] and alpha [S] of step i, from 0; `covered` [S]: the sum of alpha so far."""
    last = len(annotations) - 1
    e = [energy(config, p, s, h, j == last, covered[j]) for j, h in enumerate(annotations)]
    if config.attention == "local_m":
        centre = min(i, last)
    elif config.attention == "local_p":
        centre = len(annotations) * sigmoid((np.tanh(s @ p["W_p"]) @ p["v_p"])[0])
    if config.attention in ("local_m", "local_p"):
        e = [e_j if abs(j - centre) <= 10 else -np.inf for j, e_j in enumerate(e)]
    alpha = softmax(np.array(e))
    if config.attention == "local_p":
        for j in range(len(alpha)):
            alpha[j] *= np.exp(-((j - centre) ** 2) / (2 * 5**2))
    return sum(a * h for a, h in zip(alpha, annotations, strict=True)), alpha


def word_log_probabilities(config, params, s, y, c):
    p, out = params["readout"], params["output"]
    t = p["b_o"]
    for symbol, vector, matrix in (("s", s, "U_o"), ("y", y, "V_o"), ("c", c, "C_o")):
        if symbol in config.readout_inputs:
            t = t + vector @ p[matrix]
    if config.readout == "maxout":
        t = np.array([max(t[2 * k], t[2 * k + 1]) for k in range(len(t) // 2)])
    elif config.readout == "tanh":
        t = np.tanh(t)
    if "W_1" in out:
        t = t @ out["W_1"]
    W_o = params["target_embedding"]["E"].T if config.tied_embeddings else out["W_o"]
    return np.log(softmax(t @ W_o + out["b_w"]))


def move(config, p, look, s, c, y, y_next):
    """What the readout of a step reads, s and c; its alpha; and the s of the next step."""

    def update(s, p=p, **inputs):
        if not config.feed_previous:
            inputs.pop("W", None)
        return CELLS[config.cell](p, s, **inputs)

    if config.order == "groundhog":
        c, alpha = look(s)
        return s, c, alpha, update(s, W=y_next, C=c)
    if config.order == "paper":
        c, alpha = look(s)
        s = update(s, W=y, C=c)
    elif config.order == "luong":
        s = update(s, W=y, C=c)
        c, alpha = look(s)
    elif config.order == "conditional":  # arXiv 1703.04357
        between = update(s, W=y)
        c, alpha = look(between)
        s = update(between, p["second"], C=c)
    return s, c, alpha, s


def decode(config, params, annotations, s, target):
    """log p of every word at every step [T, V], and alpha [T, S], given the words before."""
    c = np.zeros_like(annotations[0])
    log_p, alphas, before, covered = [], [], START, np.zeros(len(annotations))

    def words(word):
        if config.feed_previous or "y" in config.readout_inputs:
            return embed(params["target_embedding"], word)
        return None

    for i, word in enumerate(target):

        def look(s, i=i, covered=covered):
            return attend(config, params["attention"], s, annotations, i, covered)

        y = words(before)
        read, c, alpha, s = move(config, params["decoder"], look, s, c, y, words(word))
        log_p.append(word_log_probabilities(config, params, read, y, c))
        alphas.append(alpha)
        covered = covered + alpha
        before = word
    return np.array(log_p), np.array(alphas)


def translate_log_probabilities(config, params, source, target):
    """log p [T, V] and alpha [T, S] of one sentence pair."""
    annotations, s = encode(config, params, source)
    return decode(config, params, annotations, s, target)


def loss(config, params, pairs, smoothing=0.0, coverage=0.0):
    """−Σ log p over all words of all pairs, with label smoothing and uncovered source words."""
    total = 0.0
    for source, target in pairs:
        log_p, alpha = translate_log_probabilities(config, params, source, target)
        for j in range(len(source) - 1):
            total += coverage * (1 - sum(row[j] for row in alpha)) ** 2
        for step, word in zip(log_p, target, strict=True):
            total -= (1 - smoothing) * step[word] + smoothing * step.mean()
    return total


def groundhog_log_probabilities(w, source, target):
    """log p of every id at every step [T, V], from arrays by GroundHog's names and in its ids.

    From the equations of arXiv 1409.0473, appendix A, in GroundHog's order: look, generate,
    update. All matrices multiply row vectors. EOS is the last id.
    """

    def cell(p, h, x, c=None):
        def into(gate, context):
            product = x @ w[f"W_0_{p}_{gate}_embdr_0"]
            return product if c is None else product + c @ w[f"W_0_dec_dec_{context}_0"]

        z = sigmoid(into("update", "updater") + h @ w[f"G_{p}_transition_0"])
        r = sigmoid(into("reset", "reseter") + h @ w[f"R_{p}_transition_0"])
        candidate = into("input", "inputter") + w[f"b_0_{p}_input_embdr_0"]
        return (1 - z) * h + z * np.tanh(candidate + (r * h) @ w[f"W_{p}_transition_0"])

    size = w["W_enc_transition_0"].shape[0]
    words = [w["W_0_enc_approx_embdr"][i] + w["b_0_enc_approx_embdr"] for i in source]
    forward, backward, h = [], [], np.zeros(size)
    for x in words:
        h = cell("enc", h, x)
        forward.append(h)
    h = np.zeros(size)
    for x in reversed(words):
        h = cell("back_enc", h, x)
        backward.insert(0, h)
    annotations = [np.concatenate(pair) for pair in zip(forward, backward, strict=True)]
    s = np.tanh(backward[0] @ w["W_0_dec_initializer_0"] + w["b_0_dec_initializer_0"])
    y, found = np.zeros(w["W_0_dec_approx_embdr"].shape[1]), []
    for word in target:
        e = [
            np.tanh(s @ w["B_dec_transition_0"] + h @ w["A_dec_transition_0"])
            @ w["D_dec_transition_0"][:, 0]
            for h in annotations
        ]
        c = sum(a * h for a, h in zip(softmax(np.array(e)), annotations, strict=True))
        t = s @ w["W_0_dec_hid_readout_0"] + w["b_0_dec_hid_readout_0"]
        t = t + y @ w["W_0_dec_prev_readout_0"] + c @ w["W_0_dec_repr_readout"]
        t = np.array([max(t[k], t[k + 1]) for k in range(0, len(t), 2)])
        logits = t @ w["W1_dec_deep_softmax"] @ w["W2_dec_deep_softmax"]
        found.append(np.log(softmax(logits + w["b_dec_deep_softmax"])))
        y = w["W_0_dec_approx_embdr"][word] + w["b_0_dec_approx_embdr"]
        s = cell("dec", s, y, c)
    return np.array(found)
