// Storage between calls: values are JSON.
import * as shelf from "mimir:tool/storage@1.0.0";

const keeping = {
  get({ key }) {
    const bytes = shelf.get(key);
    return bytes == null ? {} : { value: parse(new TextDecoder().decode(bytes)) };
  },
  set({ key, value }) {
    shelf.set(key, new TextEncoder().encode(text(value)));
  },
  delete({ key }) {
    shelf.delete(key);
  },
  keys({ prefix }) {
    return shelf.keys(prefix);
  },
};

hands.keep = (fields) => [told(() => keeping[fields.how](fields))];

