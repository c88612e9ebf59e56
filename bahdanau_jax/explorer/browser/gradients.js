// Gradient times input: x_j · ∂log p(y_i)/∂x_j for each target word i and source word j.

import { START } from "./model.js";
import { Tape } from "./tape.js";

// Rows [T][S], one at a time, so that the page can stay responsive between them.
export function* attribution(model, source, target, change = null) {
  const tape = new Tape(), { ops } = tape;
  const x = model.embed(source).map((vector) => tape.variable(vector));
  const memory = model.encode(x, ops);
  let state = model.start(memory, ops), token = START;
  const logPs = target.map((id) => {
    const result = model.step(memory, state, token, change, ops);
    [state, token] = [result.state, id];
    return ops.logProbability(result.logits, id);
  });
  for (const logP of logPs) {
    tape.backward(logP);
    yield Float32Array.from(x, ({ value, gradient }) => {
      return gradient ? value.reduce((sum, v, i) => sum + v * gradient[i], 0) : 0;
    });
  }
}
