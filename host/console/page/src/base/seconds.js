/** The time of day, for texts that count seconds. */
import { useEffect, useState } from './html.js';

/** Returns the time in milliseconds, and renders again each second. */
export function useSeconds() {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
