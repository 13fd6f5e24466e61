/**
 * Builds dist from the sources: `node build.mjs`, or `node build.mjs --check` to compare dist with a fresh build.
 * Cargo embeds the files of dist, and needs no Node.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
// Packages may be in a folder elsewhere: CONSOLE_PACKAGES=/path/with/node_modules.
const packages = process.env.CONSOLE_PACKAGES ?? here;
const require = createRequire(join(packages, 'package.json'));
const esbuild = require('esbuild');

const pinned = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8')).devDependencies;
for (const name of ['esbuild', 'preact', 'htm']) {
  const { version } = JSON.parse(readFileSync(join(packages, 'node_modules', name, 'package.json'), 'utf8'));
  if (version !== pinned[name]) throw new Error(`${name} is ${version}, and package.json pins ${pinned[name]}: run npm install`);
}

/** Code that writes HTML or evaluates text. */
const WRITERS = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|new Function|\beval\(/;

/** Shortens templates: no indentation, no line ends between elements, no quotes around words, `<//>` for each end tag. */
const shorten = (source) =>
  source
    .replace(/\n[ \t]+/g, '\n')
    .replace(/(?<=[>}`])\n(?=[<`])|(?<=[>}])\n(?=\$\{)/g, '')
    .replace(/<\/[a-z0-9]+>/g, '<//>')
    .replace(/(?<=[\w-])="([\w-]+)"/g, '=$1')
    .replaceAll(' />', '/>');
/** Preact's only code that writes HTML. It is taken out: the page must not be able to. */
const WRITES_HTML = 'h?(l||y&&(h.__html==y.__html||h.__html==t.innerHTML)||(t.innerHTML=h.__html),r.__k=[]):';
const preactWithoutHtml = {
  name: 'preact-without-html',
  setup(build) {
    build.onLoad({ filter: /[\\/]preact[\\/]dist[\\/]preact\.mjs$/ }, ({ path }) => {
      const source = readFileSync(path, 'utf8');
      if (source.split(WRITES_HTML).length !== 2) throw new Error('this version of preact writes HTML elsewhere: look for innerHTML, and adapt WRITES_HTML');
      return { contents: source.replace(WRITES_HTML, '') };
    });
  },
};

const shortenTemplates = {
  name: 'shorten-templates',
  setup(build) {
    build.onLoad({ filter: /[\\/]src[\\/].*\.js$/ }, ({ path }) => ({ contents: shorten(readFileSync(path, 'utf8')) }));
    build.onLoad({ filter: /[\\/]src[\\/].*\.css$/ }, ({ path }) => ({ contents: readFileSync(path, 'utf8').replace(/(?<=[,(]) /g, ''), loader: 'css' }));
  },
};

const common = {
  absWorkingDir: here,
  bundle: true,
  charset: 'utf8',
  legalComments: 'none',
  minify: true,
  plugins: [shortenTemplates, preactWithoutHtml],
  nodePaths: [join(packages, 'node_modules')],
  target: ['chrome123', 'firefox120', 'safari17.5'],
  write: false,
};
const built = async (entry, options) => (await esbuild.build({ ...common, ...options, entryPoints: [entry] })).outputFiles[0].text;

/** Shortens the names of custom properties, which no script uses. */
const shortenProperties = (css) => {
  const names = [...new Set(css.match(/--[a-z][a-z-]*/g))];
  return css.replace(/--[a-z][a-z-]*/g, (name) => `--${names.indexOf(name).toString(36)}`);
};

const files = {
  'console.css': shortenProperties(await built('src/styles/main.css', {})),
  'console.js': await built('src/main.js', { format: 'iife' }),
  'index.html': readFileSync(join(here, 'index.html'), 'utf8'),
  'LICENCES.txt': ['preact', 'htm']
    .map((name) => `${name} ${pinned[name]}\n\n${readFileSync(join(packages, 'node_modules', name, 'LICENSE'), 'utf8').trim()}\n`)
    .join('\n----\n\n'),
};
if (WRITERS.test(files['console.js'])) throw new Error(`the page must not write HTML or evaluate text: ${WRITERS.exec(files['console.js'])[0]}`);
const hash = (text) => createHash('sha256').update(text).digest('hex');
files.SHA256SUMS = Object.keys(files).map((name) => `${hash(files[name])}  ${name}\n`).join('');

// Without compression; about a third of it with gzip.
const LIMIT = 168 * 1024;
const size = Buffer.byteLength(files['console.js']) + Buffer.byteLength(files['console.css']);
if (size > LIMIT) throw new Error(`the page is ${size} bytes; the limit is ${LIMIT}`);
for (const name of readdirSync(join(here, 'src'), { recursive: true }).filter((name) => name.endsWith('.js'))) {
  const found = new RegExp(WRITERS, 'i').exec(readFileSync(join(here, 'src', name), 'utf8'));
  if (found) throw new Error(`src/${name} must not write HTML or evaluate text: ${found[0]}`);
}

const dist = join(here, 'dist');
if (process.argv.includes('--check')) {
  for (const [name, text] of Object.entries(files)) {
    if (readFileSync(join(dist, name), 'utf8') !== text) throw new Error(`dist/${name} differs from a fresh build: run npm run build`);
  }
  console.log(`dist is up to date: ${size} bytes of JavaScript and CSS`);
} else {
  mkdirSync(dist, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dist, name), text);
  console.log(`built: ${size} bytes of JavaScript and CSS`);
}
