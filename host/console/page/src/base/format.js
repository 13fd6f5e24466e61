/** Numbers, times and texts for people. */

const number = new Intl.NumberFormat('en-US');

/** Formats a count: 12,345. */
export const count = (value) => (Number.isFinite(value) ? number.format(value) : '–');

/** Formats a count with its noun: 1 call, 2 calls. */
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** Shortens a large count: 1.2 M. */
export function short(value) {
  if (!Number.isFinite(value)) return '–';
  for (const [size, unit] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k']]) {
    if (value >= size) return `${trim(value / (unit === 'k' ? 1e3 : size))} ${unit}`;
  }
  return count(Math.round(value));
}

const trim = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, ''));

/** Formats a size in bytes. */
export function bytes(value) {
  if (!Number.isFinite(value)) return '–';
  if (value < 1024) return `${count(value)} B`;
  for (const [size, unit] of [[1024 ** 3, 'GiB'], [1024 ** 2, 'MiB'], [1024, 'KiB']]) {
    if (value >= size) return `${trim(value / size)} ${unit}`;
  }
}

/** Formats a duration in milliseconds. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return '–';
  if (ms === 0) return '0 ms';
  if (ms < 1) return '<1 ms';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / (24 * 60))} days`;
}

/** Reads a time of the server: RFC 3339, or milliseconds since 1970. Returns NaN for anything else. */
export const millis = (time) => (typeof time === 'number' ? time : Date.parse(time));

const pad = (value) => String(value).padStart(2, '0');

/** Formats the time of day: 14:03:09. */
export function clock(time) {
  const date = new Date(millis(time));
  return Number.isNaN(date.getTime()) ? '–' : `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** Formats the day: 2026-11-29. */
export function day(time) {
  const date = new Date(millis(time));
  if (Number.isNaN(date.getTime())) return '–';
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}

/** Formats day and time. */
export const moment = (time) => `${day(time)} ${clock(time)}`;

/** Formats how long ago a time is. */
export function ago(time, now = Date.now()) {
  const ms = now - millis(time);
  if (!Number.isFinite(ms)) return '–';
  if (ms < 5_000) return 'just now';
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s ago`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ago`;
  if (ms < 48 * 3_600_000) return `${Math.floor(ms / 3_600_000)} h ago`;
  return `${Math.floor(ms / 86_400_000)} days ago`;
}

const INVISIBLE = new RegExp(
  '[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f' +
    '\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\u{e0000}-\\u{e0fff}]',
  'gu',
);

/**
 * Shows control, bidirectional and zero-width characters as `\u{202e}`. The server has done so already; the page does not
 * rely on it.
 */
export function visible(text) {
  const string = typeof text === 'string' ? text : text === undefined || text === null ? '' : JSON.stringify(text);
  return string
    .replaceAll('\r\n', '\n')
    .replace(INVISIBLE, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
}

/** Shows a text in one line, at most `max` characters long. */
export function oneLine(text, max = 200) {
  const whole = typeof text === 'object' && text ? JSON.stringify(text) : String(text ?? '');
  const start = visible(whole.slice(0, max * 4)).replace(/\s+/g, ' ').trim();
  return start.length > max ? `${start.slice(0, max - 1)}…` : start;
}
