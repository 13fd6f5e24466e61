/** The width of the window: that of a phone, or more. */
import { createStore } from '../base/store.js';

const media = window.matchMedia('(max-width: 760px)');

export const isNarrow = createStore(media.matches);
media.addEventListener('change', () => isNarrow.set(media.matches));
