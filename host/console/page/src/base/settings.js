/** Settings that this browser stores: the theme, whether shortcuts are on, and the order of the tools. */

const NAME = 'mimir-console.';

/** Returns a remembered word, or null. */
export function recall(name) {
  try {
    return localStorage.getItem(NAME + name);
  } catch {
    return null;
  }
}

/** Remembers a word, where the browser allows it. */
export function remember(name, value) {
  try {
    localStorage.setItem(NAME + name, value);
  } catch {
    // Private windows may refuse; the setting then lasts as long as the page.
  }
}
