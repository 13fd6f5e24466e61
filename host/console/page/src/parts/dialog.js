/** Dialogs. The browser keeps the focus inside, and gives it back. */
import { html, useId, useLayoutEffect, useRef } from '../base/html.js';
import { useKeys } from '../base/keys.js';

/**
 * @param {{ title: string, onClose: () => void, children: any, tone?: string, wide?: boolean }} props
 */
export function Dialog({ title, onClose, children, tone = '', wide = false }) {
  const dialog = useRef(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    dialog.current.scrollTop = 0;
    return () => before?.isConnected && before.focus?.();
  }, []);
  useKeys({ Escape: onClose }, true);
  return html`
    <dialog
      ref=${dialog}
      class=${`dialog ${tone} ${wide ? 'wide' : ''}`}
      aria-labelledby=${id}
      onCancel=${(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick=${(event) => event.target === dialog.current && onClose()}
    >
      <div class="dialog-body">
        <h2 id=${id}>${title}</h2>
        ${children}
      </div>
    </dialog>
  `;
}
