/** The keys of settings: suggestions and descriptions. `*` is a name that a person chooses. */

/** Number of keys that are suggested at a time. */
const SUGGESTED_MAX = 60;

/**
 * Returns the keys to suggest for a beginning. Names that a person chooses, such as those of tools, are taken from what is
 * typed, or from the known tools.
 */
export function suggestKeys(keys, typed, tools) {
  const parts = typed.trim().split('.');
  const found = [];
  for (const { key, ...rest } of keys) {
    const names = key.split('.');
    const at = names.indexOf('*');
    let filled = [key];
    if (at >= 0) {
      const name = parts.length > at + 1 ? parts[at] : null;
      if (name) filled = [names.map((part, index) => (part === '*' ? (parts[index] ?? '*') : part)).join('.')];
      else if (names[0] === 'tools') filled = tools.map((tool) => key.replace('*', tool));
    }
    for (const one of filled) if (!one.includes('*') && one.startsWith(typed.trim())) found.push({ key: one, ...rest });
    if (found.length >= SUGGESTED_MAX) break;
  }
  return found.slice(0, SUGGESTED_MAX);
}

/** Returns the description of a key, whatever the names in it are. */
export function findKey(keys, typed) {
  const parts = typed.trim().split('.');
  return keys.find(({ key }) => {
    const names = key.split('.');
    return names.length === parts.length && names.every((name, index) => name === parts[index] || (name === '*' && parts[index]));
  });
}
