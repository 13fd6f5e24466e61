/** Lines that were added to the record while the page is open. */
import { createStore } from '../base/store.js';

/** The number of lines that were added since the timeline was loaded. */
export const newEntries = createStore(0);

/** Counts new lines. */
export function pushRecord(entries) {
  if (Array.isArray(entries)) newEntries.set(newEntries.get() + entries.length);
}
