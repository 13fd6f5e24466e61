/** The page's address: `#/SCREEN/PART…?name=value`. */
import { createStore } from './store.js';

/** The screens, in the order of the navigation. */
export const SCREENS = ['live', 'questions', 'record', 'tools', 'policy'];

function read() {
  const [path, search = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').map(decode).filter(Boolean);
  const screen = SCREENS.includes(parts[0]) ? parts[0] : 'live';
  return { screen, parts: parts.slice(1), query: Object.fromEntries(new URLSearchParams(search)) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The current address. */
export const route = createStore(read());
window.addEventListener('hashchange', () => route.set(read()));

/** Returns the address of a screen. */
export function href(screen, parts = [], query = {}) {
  const given = Object.entries(query).filter(([, value]) => value);
  const search = given.length ? `?${new URLSearchParams(given)}` : '';
  return `#/${[screen, ...parts.map(encodeURIComponent)].join('/')}${search}`;
}

/** Shows another address. `replace` adds no entry to the history. */
export function go(address, replace = false) {
  if (location.hash === address) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', address);
  route.set(read());
}

/** Takes the one-time key out of the address, before anything else can see it. */
export function takeKey() {
  const key = /^#key=(.+)$/.exec(location.hash)?.[1];
  if (!key) return null;
  history.replaceState(null, '', '#/live');
  route.set(read());
  return decode(key);
}
