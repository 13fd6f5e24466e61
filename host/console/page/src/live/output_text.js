/** Streamed output of a call, bounded. */

/** Characters that are kept. */
export const OUTPUT_MAX = 64 * 1024;

/** Longest overlap that is looked for, in texts. */
const OVERLAP_MAX = 200;

/** A chunk ends at the first line end after this length, so that a long output is not laid out again for each line. */
const CHUNK = 2_048;

/** The end of a call's output, as chunks that change only at the end. */
export class OutputText {
  chunks = [];
  length = 0;
  dropped = 0;
  /** True if the server has dropped the beginning. */
  isCut = false;
  nextKey = 0;

  /** Adds text of a stream: `stdout`, `stderr` or `log`. Each text begins on a line of its own, as on the server. */
  push(stream, text) {
    if (typeof text !== 'string' || !text) return;
    const kept = text.slice(-OUTPUT_MAX);
    this.dropped += text.length - kept.length;
    const last = this.chunks.at(-1);
    if (last && !last.text.endsWith('\n')) {
      last.text += '\n';
      this.length++;
    }
    if (last && last.stream === stream && !(last.text.length > CHUNK && last.text.endsWith('\n'))) last.text += kept;
    else this.chunks.push({ key: this.nextKey++, stream, text: kept });
    this.length += kept.length;
    while (this.length > OUTPUT_MAX) this.dropFront();
  }

  /** Returns how many of the first texts are the end of this output already. */
  overlap(texts) {
    const end = this.chunks.map((chunk) => chunk.text).join('');
    for (let number = Math.min(texts.length, OVERLAP_MAX); number > 0; number--) {
      const joined = texts.slice(0, number).reduce((all, text) => all + (all && !all.endsWith('\n') ? '\n' : '') + text, '');
      if (end.endsWith(joined)) return number;
    }
    return 0;
  }

  dropFront() {
    const [first] = this.chunks;
    const excess = this.length - OUTPUT_MAX;
    const cut = this.chunks.length > 1 ? first.text.length : excess;
    first.text = first.text.slice(cut);
    if (!first.text) this.chunks.shift();
    this.length -= cut;
    this.dropped += cut;
  }
}
