/** Requests to the console's server, and what the page knows about its session. */
import { useEffect, useRef, useState } from './html.js';
import { createStore, onChange } from './store.js';

/** An error answer, with a stable code and a message for people. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** True once the server has refused a request because this browser is not logged in. */
export const loginRequired = createStore(false);

const TIMEOUT_MS = 60_000;

/** Times that a request is repeated after a second if there were too many: nothing of it was done. */
const REPEATS = 4;

async function request(path, options, repeats = REPEATS) {
  let response;
  try {
    response = await fetch(`api/${path}`, {
      cache: 'no-store',
      credentials: 'same-origin',
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...options,
    });
  } catch (error) {
    const message = error.name === 'TimeoutError' ? 'The console did not answer in time.' : 'The console cannot be reached.';
    throw new ApiError(0, 'NETWORK', message);
  }
  if (response.status === 429 && repeats) {
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    return request(path, options, repeats - 1);
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  const body = await response.json().catch(() => null);
  const { code = 'INTERNAL', message = `The console answered with status ${response.status}.` } = body?.error ?? {};
  if (response.status === 401 && code === 'LOGIN_REQUIRED') loginRequired.set(true);
  throw new ApiError(response.status, code, message);
}

/** Builds a query string from the parameters that have a value. */
export function query(parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return given.length ? `?${new URLSearchParams(given)}` : '';
}

/** Gets JSON. */
export const get = (path, parameters) => request(path + query(parameters), {});

/** Posts JSON, with the header that only this page can send. */
export const post = (path, body = {}) =>
  request(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Mimir-Console': '1' },
    body: JSON.stringify(body),
  });

/** Encodes a name or id as one segment of a path. */
export const segment = encodeURIComponent;

/**
 * Loads JSON and keeps it up to date: again when the path changes, and when the server says that `what` has changed.
 * Without a path, nothing is loaded.
 */
export function useLoad(path, what) {
  const [state, setState] = useState({ path: null, data: null, error: null });
  const latest = useRef(0);
  const load = () => {
    if (!path) return;
    const turn = ++latest.current;
    const store = (next) => {
      if (turn === latest.current) setState(next);
    };
    get(path).then(
      (data) => store({ path, data, error: null }),
      (error) => store({ path, data: null, error }),
    );
  };
  useEffect(() => {
    load();
    return () => {
      latest.current++;
    };
  }, [path]);
  useEffect(() => (what ? onChange((changed) => changed === what && load()) : undefined), [path, what]);
  const current = state.path === path ? state : { data: null, error: null };
  return { data: current.data, error: current.error, reload: load };
}
