/** Runs the stories with the real program: `MIMIR=… node story/run.mjs [FILTER]`. CONSOLE_SHOTS=FOLDER keeps screenshots. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { launch } from '../tests/browser.mjs';
import { MIMIR, Workspace } from './kit.mjs';

if (!MIMIR) throw new Error('MIMIR is not set: name the program to test');
const folder = dirname(fileURLToPath(import.meta.url));
const filter = process.argv[2] ?? '';
const ownCache = process.env.STORY_CACHE ? null : mkdtempSync(join(tmpdir(), 'mimir-story-cache-'));
process.env.STORY_CACHE ??= ownCache;

// Tools are compiled when they are first called: not in a story.
const warm = new Workspace('');
warm.write('a.txt', 'a\n');
for (const [tool, args] of [['edit_file', { path: 'a.txt', pattern: 'a', replacement: 'b' }], ['exec', { command: 'true' }], ['web_fetch', { url: 'http://127.0.0.1:9/' }]]) {
  try {
    warm.mimir('call', tool, JSON.stringify(args), '--approve', 'always');
  } catch {
    // Compiled, which is all that counts here.
  }
}
await warm.close();

// Calls that are open when a story fails end with their agent.
process.on('unhandledRejection', () => {});

/** A story that takes longer hangs. */
const TIMEOUT_MS = 240_000;

async function inTime(story) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`not done after ${TIMEOUT_MS / 1_000} s`)), TIMEOUT_MS)));
  await Promise.race([story, late]).finally(() => clearTimeout(timer));
}

const browser = await launch();
let passed = 0;
const failed = [];
for (const file of readdirSync(folder).filter((name) => name.endsWith('.story.mjs')).sort()) {
  const { stories } = await import(join(folder, file));
  for (const [name, story] of Object.entries(stories)) {
    const title = `${file.replace('.story.mjs', '')}: ${name}`;
    if (!title.includes(filter)) continue;
    const start = Date.now();
    try {
      await inTime(story(browser));
      passed++;
      console.log(`ok    ${title} (${Date.now() - start} ms)`);
    } catch (error) {
      failed.push(title);
      console.log(`FAIL  ${title}\n${error.stack ?? error}`);
      for (const [index, page] of browser.contexts().flatMap((context) => context.pages()).entries()) {
        if (process.env.CONSOLE_SHOTS) await page.screenshot({ path: join(process.env.CONSOLE_SHOTS, `failed-${failed.length}-${index}.png`) }).catch(() => {});
      }
      await Promise.all(browser.contexts().map((context) => context.close()));
    }
  }
}
await browser.close();
if (ownCache) rmSync(ownCache, { recursive: true, force: true });
console.log(`${passed} passed, ${failed.length} failed`);
process.exit(failed.length || !passed ? 1 : 0);
