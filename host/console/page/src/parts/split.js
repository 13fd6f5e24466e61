/** A list with the details of what is selected beside it; on a phone, one of both. */
import { html } from '../base/html.js';
import { repeats, useKeys } from '../base/keys.js';
import { useStore } from '../base/store.js';
import { ErrorText, Icon, Loading } from './controls.js';
import { isNarrow } from './narrow.js';

/** @param {{ label: string, list: any, detail: any }} props `detail` is null if nothing is selected. */
export function Split({ label, list, detail }) {
  const narrow = useStore(isNarrow);
  return html`
    <div class=${detail ? 'screen split with-detail' : 'screen split'}>
      ${!(narrow && detail) && html`<section class="list-pane" aria-label=${label}>${list}</section>`}
      ${detail}
    </div>
  `;
}

/** @param {{ label: string, title: any, tags?: any, actions?: any, onClose: () => void, children: any }} props */
export function DetailPane({ label, title, tags, actions, onClose, children }) {
  return html`
    <section class="detail-pane" aria-label=${label}>
      <div class="detail-head">
        <button class="icon-button" aria-label="Close" title="Close (Esc)" onClick=${onClose}><${Icon} name="back" /></button>
        <h2>${title}</h2>
        ${tags}
        <span class="spacer"></span>
        ${actions}
      </div>
      <div class="detail-body">${children}</div>
    </section>
  `;
}

/** Moves the selection with j and k, and ends it with Escape. */
export function useListKeys(ids, selected, select, close) {
  const step = (by) =>
    repeats(() => {
      const index = ids.indexOf(selected);
      if (ids.length) select(ids[Math.min(ids.length - 1, Math.max(0, index + by))]);
    });
  useKeys({ j: step(1), k: step(-1), ...(selected && close && { Escape: close }) });
}

/** The state of a list that is loaded: loading, or failed. */
export function LoadState({ load: { data, error, reload }, what }) {
  if (error) return html`<${ErrorText} error=${error} onRetry=${reload} />`;
  return data ? null : html`<${Loading} what=${what} />`;
}
