/** Dark and light. */
import { createStore } from './store.js';
import { recall, remember } from './settings.js';

const THEMES = ['auto', 'light', 'dark'];
const stored = recall('theme');

/** The theme: `auto` follows the system. */
export const theme = createStore(THEMES.includes(stored) ? stored : 'auto');

function apply(name) {
  document.documentElement.dataset.theme = name;
}

apply(theme.get());
theme.subscribe((name) => {
  remember('theme', name);
  apply(name);
});

/** Switches to the next theme. */
export const nextTheme = () => theme.set(THEMES[(THEMES.indexOf(theme.get()) + 1) % THEMES.length]);
