// The language model.
import * as model from "mimir:tool/model@1.0.0";

hands.complete = ({ prompt, most }) => [told(() => model.complete(prompt.toWellFormed(), most === null ? null : Math.max(0, Math.floor(most) || 0)))];

