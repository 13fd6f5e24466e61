/** Streamed output of a call, bounded. */

/** Characters that are kept. */
export const OUTPUT_MAX = 64 * 1024;

/** Longest overlap that is looked for. */
const OVERLAP_MAX = 16 * 1024;

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

  /** Adds text of a stream: `stdout`, `stderr` or `log`. */
  push(stream, text) {
    if (typeof text !== 'string' || !text) return;
    const kept = text.slice(-OUTPUT_MAX);
    this.dropped += text.length - kept.length;
    const last = this.chunks.at(-1);
    if (last && last.stream === stream && !(last.text.length > CHUNK && last.text.endsWith('\n'))) last.text += kept;
    else this.chunks.push({ key: this.nextKey++, stream, text: kept });
    this.length += kept.length;
    while (this.length > OUTPUT_MAX) this.dropFront();
  }

  /** Returns how much of the beginning of `text` is the end of this output already. */
  overlap(text) {
    const end = this.chunks.map((chunk) => chunk.text).join('');
    for (let length = Math.min(text.length, end.length, OVERLAP_MAX); length > 0; length--) {
      if (end.endsWith(text.slice(0, length))) return length;
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
