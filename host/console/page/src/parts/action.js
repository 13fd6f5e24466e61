/** Requests that change something, with their state. */
import { useState } from '../base/html.js';

/**
 * Returns a function that runs `action`, whether it runs now, and its error.
 * @param {(...given: any[]) => Promise<void>} action
 */
export function useAction(action) {
  const [state, setState] = useState({ isBusy: false, error: null });
  const run = async (...given) => {
    setState({ isBusy: true, error: null });
    try {
      await action(...given);
      setState({ isBusy: false, error: null });
    } catch (error) {
      setState({ isBusy: false, error });
    }
  };
  return { run, ...state };
}
