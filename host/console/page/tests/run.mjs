/** Runs the tests of the page: `node tests/run.mjs [FILTER]`. CONSOLE_SHOTS=FOLDER keeps screenshots. */
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { launch } from './browser.mjs';

const folder = dirname(fileURLToPath(import.meta.url));
const filter = process.argv[2] ?? '';
const browser = await launch();
let passed = 0;
const failed = [];
for (const file of readdirSync(folder).filter((name) => name.endsWith('.test.mjs')).sort()) {
  const { tests } = await import(join(folder, file));
  for (const [name, test] of Object.entries(tests)) {
    const title = `${file.replace('.test.mjs', '')}: ${name}`;
    if (!title.includes(filter)) continue;
    const start = Date.now();
    try {
      await test(browser);
      passed++;
      console.log(`ok    ${title} (${Date.now() - start} ms)`);
    } catch (error) {
      failed.push(title);
      console.log(`FAIL  ${title}\n${error.stack ?? error}`);
    }
  }
}
await browser.close();
console.log(`${passed} passed, ${failed.length} failed`);
process.exit(failed.length || !passed ? 1 : 0);
