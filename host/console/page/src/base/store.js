/** Values that components observe. */
import { useLayoutEffect, useState } from './html.js';

/**
 * Creates a store: a value with listeners.
 * @template T
 * @param {T} value
 */
export function createStore(value) {
  const listeners = new Set();
  return {
    get: () => value,
    /** Replaces the value, and tells listeners if it is another one. */
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener(value);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Returns the store's value, or the part that `select` picks, and renders again when it changes. */
export function useStore(store, select = (value) => value) {
  const selected = select(store.get());
  const [, render] = useState(0);
  useLayoutEffect(() => {
    let shown = select(store.get());
    const update = () => {
      const next = select(store.get());
      if (Object.is(next, shown)) return;
      shown = next;
      render((count) => count + 1);
    };
    // The value may have changed between the render and this effect.
    if (!Object.is(shown, selected)) render((count) => count + 1);
    return store.subscribe(update);
  }, [store]);
  return selected;
}

/** Emits named signals, such as "the tools have changed". */
const changeListeners = new Set();

/** Tells all lists of this kind to load again. */
export function emitChange(what) {
  for (const listener of [...changeListeners]) listener(what);
}

/** Calls `listener` with the kind of each change. Returns the function that ends it. */
export function onChange(listener) {
  changeListeners.add(listener);
  return () => changeListeners.delete(listener);
}
