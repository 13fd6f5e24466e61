/** Shortcuts of one key. Dialogs come before screens, screens before the page. */
import { useLayoutEffect, useRef } from './html.js';
import { createStore } from './store.js';
import { recall, remember } from './settings.js';

const layers = [];

/** True while shortcuts of one key are on. */
export const shortcutsOn = createStore(recall('shortcuts') !== 'off');
shortcutsOn.subscribe((on) => remember('shortcuts', on ? 'on' : 'off'));

/** Handles keys while the component is shown: `{ j: next, k: previous, Escape: close }`. */
export function useKeys(keys, exclusive = false) {
  const layer = useRef(null);
  layer.current ??= { keys, exclusive };
  layer.current.keys = keys;
  // Before the next key: one that is pressed as soon as a dialog is seen must not reach the screen behind it.
  useLayoutEffect(() => {
    layers.push(layer.current);
    return () => layers.splice(layers.indexOf(layer.current), 1);
  }, []);
}

const isTyping = (element) =>
  element.closest?.('input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]') !== null;

/** Keys that a focused control handles itself. */
const ofControl = (element, key) =>
  (key === 'Enter' || key === ' ') && element.closest?.('a, button, summary, input, [role=tab]') !== null;

document.addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const { key, target } = event;
  if (ofControl(target, key)) return;
  if (key !== 'Escape' && (isTyping(target) || (key.length === 1 && !shortcutsOn.get()))) return;
  for (const layer of [...layers].reverse()) {
    const action = layer.keys[key];
    // A held key must not answer several questions.
    if (action && !(event.repeat && !action.repeats)) {
      event.preventDefault();
      action(event);
      return;
    }
    if (action || layer.exclusive) return;
  }
});

/** Marks an action as one that repeats while its key is held. */
export function repeats(action) {
  const repeated = (event) => action(event);
  repeated.repeats = true;
  return repeated;
}
