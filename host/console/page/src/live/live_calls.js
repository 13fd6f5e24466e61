/** The calls of the Live screen: a bounded list that events change. */
import { millis } from '../base/format.js';
import { agentKey } from './agents.js';
import { OutputText } from './output_text.js';

/** Calls that are kept. Finished ones are dropped first, the oldest first. */
export const CALLS_MAX = 2_000;

/** Effects that are kept for a call. */
export const EFFECTS_MAX = 200;

/** An agent whose last call has ended before that is not listed. */
const RECENT_MS = 300_000;

/** Characters of the arguments that the filter searches. */
const SEARCHED = 2_000;

/** All live calls by id, in the order of their start. */
export class LiveCalls {
  calls = new Map();
  /** Calls that this page or the server has dropped. */
  dropped = 0;

  /** Replaces everything with the server's list. */
  load({ calls = [], dropped = 0 }) {
    // The server's list does not say who has answered.
    const answered = new Map([...this.calls.values()].map((call) => [call.id, call.answered]));
    this.calls.clear();
    this.dropped = dropped;
    for (const { output, outputTruncated, effects, effectCount, decided, finished, progress, state, since, ranMs, edited, ...started } of calls.slice(-CALLS_MAX)) {
      const call = this.add(started);
      call.answered = answered.get(call.id) ?? null;
      call.decided = decided ?? null;
      call.progress = progress ?? null;
      call.state = state ?? 'running';
      call.since = since;
      call.ranMs = ranMs;
      call.edited = edited ?? null;
      for (const effect of effects ?? []) addEffect(call, effect);
      call.effectCount = effectCount ?? call.effectCount;
      call.output.push('stdout', output);
      call.output.isCut = !!outputTruncated;
      if (finished) finish(call, finished);
      else if (state === 'lost') finish(call, { at: null, ok: false, lost: true });
    }
  }

  /**
   * Applies events. With `overlap`, the first of them may be part of the loaded list already; effects and output are then
   * not added a second time.
   */
  applyAll(events, overlap = false) {
    if (!overlap) return events.forEach((event) => this.apply(event));
    const texts = new Map();
    for (const { kind, id, text } of events) {
      if (kind === 'output' && typeof text === 'string') texts.set(id, [...(texts.get(id) ?? []), text]);
    }
    const skips = new Map([...texts].map(([id, list]) => [id, this.calls.get(id)?.output.overlap(list) ?? 0]));
    for (const event of events) {
      const { kind, id } = event;
      if (kind === 'output' && skips.get(id) > 0) skips.set(id, skips.get(id) - 1);
      else if (kind !== 'effect' || !this.calls.get(id)?.effects.some((effect) => isSameEffect(effect, event))) this.apply(event);
    }
  }

  /** Applies an event. Events of unknown calls are dropped: their start was dropped before. */
  apply(event) {
    if (event.kind === 'started') {
      if (!this.calls.has(event.id)) this.add(event);
      return;
    }
    const call = this.calls.get(event.id);
    if (!call) return;
    switch (event.kind) {
      case 'decided':
        // A later decision without reasons only changes the state.
        call.decided = event.reasons?.length || !call.decided ? event : { ...call.decided, decision: event.decision };
        if (call.state !== 'finished') call.state = event.state ?? 'running';
        if (event.since) Object.assign(call, { since: event.since, ranMs: event.ranMs });
        break;
      case 'edited':
        call.edited = event;
        break;
      case 'effect':
        addEffect(call, event);
        break;
      case 'progress':
        call.progress = event;
        break;
      case 'output':
        call.output.push(event.stream, event.text);
        break;
      case 'finished':
        finish(call, event);
        break;
      case 'lost':
        if (call.state !== 'finished') finish(call, { at: null, ok: false, lost: true });
        break;
    }
  }

  add(started) {
    const call = {
      ...started,
      state: 'running',
      decided: null,
      edited: null,
      answered: null,
      effects: [],
      effectCount: 0,
      progress: null,
      output: new OutputText(),
      finished: null,
      searched: searchText(started),
    };
    this.calls.set(call.id, call);
    if (this.calls.size > CALLS_MAX) this.dropOne();
    return call;
  }

  dropOne() {
    let oldest;
    for (const call of this.calls.values()) {
      oldest ??= call.id;
      if (call.state === 'finished') {
        oldest = call.id;
        break;
      }
    }
    this.calls.delete(oldest);
    this.dropped++;
  }

  /** Notes how a person has answered the question of a call. */
  setAnswer(id, answer, by) {
    const call = this.calls.get(id);
    if (call) call.answered = { answer, by };
  }

  /** Returns the agents with calls that run or wait, or have ended within the last minutes: its last one, and how many in `recent`. */
  agents() {
    const agents = new Map();
    for (const call of this.calls.values()) {
      const isRecent = call.state !== 'finished' || Date.now() - millis(call.finished.at) < RECENT_MS;
      if (!isRecent || !call.process?.pid || !call.session) continue;
      const key = agentKey(call);
      agents.set(key, [call, 1 + (agents.get(key)?.[1] ?? 0)]);
    }
    return [...agents.keys()].sort().map((key) => ({ ...agents.get(key)[0], recent: agents.get(key)[1] }));
  }

  /** Returns how many calls of an agent run and wait. */
  countsOf(key) {
    const counts = { running: 0, waiting: 0, finished: 0 };
    for (const call of this.calls.values()) if (call.state !== 'finished' && agentKey(call) === key) counts[call.state]++;
    return counts;
  }

  /** Returns how many calls are in each state. */
  counts(open = []) {
    const counts = { all: this.calls.size, waiting: 0, behind: 0, running: 0, finished: 0, failed: 0 };
    for (const call of this.calls.values()) {
      counts[call.state]++;
      if (questionBefore(call, open)) counts.behind++;
      if (isFailed(call)) counts.failed++;
    }
    return counts;
  }

  /**
   * Returns the rows of the list: calls that run or wait first, then those that have ended, each the newest first, with
   * nested calls below their caller. With a filter, the calls that match, without their nesting.
   * @param {{ text: string, state: string, collapsed: Set<string> }} filter
   */
  rows({ text, state, collapsed }) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length || state !== 'all') {
      const rows = [];
      for (const call of this.calls.values()) {
        if (inState(call, state) && words.every((word) => call.searched.includes(word))) rows.push(row(call, 0, 0));
      }
      return activeFirst(rows.reverse(), ({ call }) => call);
    }
    // A caller is a call that has started before. A call that names another one as its caller is shown on its own.
    const children = new Map();
    const roots = [];
    for (const call of this.calls.values()) {
      const siblings = children.get(call.parent);
      if (siblings) siblings.push(call);
      else roots.push(call);
      children.set(call.id, []);
    }
    const rows = [];
    const visit = (call, depth) => {
      const nested = children.get(call.id);
      rows.push(row(call, depth, nested.length, collapsed.has(call.id)));
      if (!collapsed.has(call.id)) for (const child of nested) visit(child, depth + 1);
    };
    for (const call of activeFirst(roots.reverse(), (call) => call)) visit(call, 0);
    return rows;
  }
}

/** Moves the calls that run or wait to the front, in the same order. */
function activeFirst(list, callOf) {
  const active = list.filter((item) => callOf(item).state !== 'finished');
  return active.length ? [...active, ...list.filter((item) => callOf(item).state === 'finished')] : list;
}

/** Returns how long a call took or has been running, in milliseconds, without the time for which it has waited. */
export function runTime(call, now = Date.now()) {
  if (call.finished) return call.finished.receipt?.durationMs ?? millis(call.finished.at) - millis(call.at);
  if (call.state === 'waiting' && call.ranMs !== undefined) return call.ranMs;
  return (call.ranMs ?? 0) + Math.max(0, now - millis(call.since ?? call.at));
}

/** Returns the question that a waiting call without a question of its own waits behind: an agent asks about one call of a tool at a time. */
export function questionBefore(call, open) {
  if (call?.state !== 'waiting' || open.some(({ callId }) => callId === call.id)) return undefined;
  return open.find(({ session, card }) => session === call.session && card?.tool === call.tool);
}

/** Returns how long a call has been waiting for a person, in milliseconds. */
export const waitTime = (call, now = Date.now()) => Math.max(0, now - millis(call.since ?? call.at));

const row = (call, depth, nested, isCollapsed = false) => ({ id: call.id, call, depth, nested, isCollapsed });

function inState(call, state) {
  if (state === 'all') return true;
  if (state === 'active') return call.state !== 'finished';
  if (state === 'failed') return isFailed(call);
  return call.state === state;
}

function searchText({ tool, session, user, client, process, source, arguments: given }) {
  const parts = [tool, session, user, client, process?.name, source, String(given ?? '').slice(0, SEARCHED)];
  return parts.filter(Boolean).join(' ').toLowerCase();
}

function addEffect(call, effect) {
  call.effectCount++;
  call.effects.push(effect);
  if (call.effects.length > EFFECTS_MAX) call.effects.shift();
}

const isSameEffect = (one, other) => one.at === other.at && one.effect === other.effect && one.subject === other.subject;

function finish(call, finished) {
  call.state = 'finished';
  call.finished = finished;
}

/** Returns true if the call was refused or has failed. */
export const isFailed = (call) => call.finished !== null && call.finished.ok === false;

const REFUSED = new Set(['POLICY_DENIED', 'APPROVAL_DENIED', 'PERMISSION_DENIED']);

/** Outcomes that are neither a success nor a failure of the tool. */
const OUTCOMES = {
  refused: { word: 'refused', tone: 'bad' },
  stopped: { word: 'stopped', tone: 'faint' },
  limited: { word: 'limited', tone: 'bad' },
};

/** Returns the state of a call in one word for people, and the tone in which it is shown. */
export function stateOf({ state, finished }) {
  if (state === 'waiting') return { word: 'waiting', tone: 'warn' };
  if (state === 'running') return { word: 'running', tone: 'accent' };
  if (finished?.lost) return { word: 'lost', tone: 'bad' };
  if (finished?.ok) return { word: 'done', tone: 'good' };
  if (REFUSED.has(finished?.code)) return { word: 'refused', tone: 'bad' };
  if (finished?.code === 'CANCELLED') return { word: 'cancelled', tone: 'faint' };
  const outcome = OUTCOMES[finished?.outcome];
  if (outcome) return outcome;
  return { word: 'failed', tone: 'bad' };
}
