/** Sentences of mimir itself: without a frame, except for what they quote. */
import { html } from '../base/html.js';
import { Name } from './text.js';

/** Layers whose texts are composed by mimir. Texts of other layers may come from settings, plugins or content. */
const LAYERS = new Set(['assessor', 'tool-default', 'commands', 'danger', 'taint', 'tool-approval']);

/** Sentences that mimir writes, whole. */
const WHOLE = new Set([
  "the tool's own default",
  "the tool's own assessment of this call",
  'the tool allows its calls by default, but declares a high risk',
  'the result has content of strangers',
]);

/** Ends of sentences that begin with one quoted text. */
const ENDS = new Set([
  'only reads',
  'only stages files for a commit',
  'runs no program',
  'is not on the list of commands that run without a question',
]);

/** Returns true for a layer whose texts are mimir's own. */
export const isHostLayer = (layer) => LAYERS.has(layer);

/** A text that mimir has composed. Only sentences that are known here lose the frame: all else may quote anything. */
export function HostText({ text, max }) {
  if (WHOLE.has(text)) return html`<span>${text}</span>`;
  const [, quoted, end] = /^`([^`]+)` (.+)$/s.exec(text ?? '') ?? [];
  if (ENDS.has(end)) return html`<span><${Name} text=${quoted} max=${max} /> ${end}</span>`;
  return html`<${Name} text=${text} max=${max} />`;
}
