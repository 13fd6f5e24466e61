/** The data that all screens share: who is logged in, the live calls and the open questions. */
import { get } from './api.js';
import { millis, oneLine } from './format.js';
import { createStore } from './store.js';
import { LiveCalls } from '../live/live_calls.js';
import { loadAgents } from '../live/agents.js';

/** The answer of `api/state`, or null before it is known. */
export const session = createStore(null);

/** The live calls, and a number that grows with each change. */
export const live = new LiveCalls();
export const liveVersion = createStore(0);

/** The open questions, the oldest first. */
export const questions = createStore([]);

/** Ends of questions, by id: `{ state, answer, by }`. Bounded. */
export const endedQuestions = createStore(new Map());

const ENDED_MAX = 200;

/** Marks the live calls as changed. */
export const touchLive = () => liveVersion.set(liveVersion.get() + 1);

/** Loads the state. */
export async function loadState() {
  session.set(await get('state'));
}

/** Loads what events then keep up to date. Returns the function that shows it. */
export async function loadLists() {
  const [state, calls, open] = await Promise.all([get('state'), get('calls'), get('questions'), loadAgents()]);
  return () => {
    session.set(state);
    live.load(calls);
    touchLive();
    // An answer of this page may be newer than the list.
    questions.set((open.questions ?? []).filter(({ id }) => !endedQuestions.get().has(id)));
  };
}

/** Adds a question, or replaces it. */
export function storeQuestion(question) {
  if (!question?.id || endedQuestions.get().has(question.id)) return;
  const open = questions.get();
  const index = open.findIndex(({ id }) => id === question.id);
  questions.set(index < 0 ? [...open, question] : open.with(index, question));
}

/** Returns the name of an answer, which may be an object with one key. */
export const answerName = (answer) => (typeof answer === 'string' ? answer : Object.keys(answer ?? {})[0]);

/** Removes a question that was answered or has expired. */
export function endQuestion(end) {
  if (!end?.id) return;
  const ended = new Map(endedQuestions.get());
  const question = questions.get().find(({ id }) => id === end.id);
  // Its agent is gone, or stopped.
  const isEarly = Date.now() < millis(question?.expiresAt) - 3_000;
  ended.set(end.id, { isEarly, ...end });
  if (ended.size > ENDED_MAX) ended.delete(ended.keys().next().value);
  endedQuestions.set(ended);
  if (end.state === 'answered' && question?.callId) live.setAnswer(question.callId, answerName(end.answer), end.by);
  questions.set(questions.get().filter(({ id }) => id !== end.id));
}

/** Returns true if the person may answer questions and cancel calls. */
export const mayAnswer = (state) => state?.role === 'approver' || state?.role === 'admin';

/** Says why a button is off for this person. Null if it is not, or nothing is known yet. */
export const adminOnly = (state, what) => (state && !isAdmin(state) ? `${what} needs the role admin; yours is ${oneLine(state.role, 20)}.` : null);

/** Returns true if the person may change settings and stop everything. */
export const isAdmin = (state) => state?.role === 'admin';
