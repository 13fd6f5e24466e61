/** Long lists: the first entries are shown, and a button opens the others. */
import { html, useState } from '../base/html.js';
import { count, plural } from '../base/format.js';

/**
 * Returns the entries to show, and the button for the others, which is null if there are none.
 * @param {any[]} items
 * @param {number} max
 * @param {string} noun such as `call`
 */
export function useCut(items, max, noun) {
  const [isOpen, setOpen] = useState(false);
  const isCut = items.length > max;
  return {
    shown: isCut && !isOpen ? items.slice(0, max) : items,
    button: isCut
      ? html`<button type="button" class="link small" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${isOpen ? `Show the first ${count(max)} only` : `Show all ${plural(items.length, noun)}`}</button>`
      : null,
  };
}

/**
 * Calls as examples, the first ones of a longer list.
 * @param {{ label: string, max?: number, noun?: string, calls: any[], row: (call: any, index: number) => any }} props
 */
export function CutCalls({ label, calls, row, max = 20, noun = 'call' }) {
  const { shown, button } = useCut(calls, max, noun);
  if (!calls.length) return null;
  return html`<ul class="matches" tabindex="0" aria-label=${label}>${shown.map(row)}</ul>${button}`;
}
