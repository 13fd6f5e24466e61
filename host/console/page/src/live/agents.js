/** The agents behind the calls: sessions of clients, and those that a person has stopped. */
import { get } from '../base/api.js';
import { createStore, onChange } from '../base/store.js';

/** Stopped agents, the oldest order first. */
export const stoppedAgents = createStore([]);

/** Identifies an agent: a process, and a session of it. */
export const agentKey = ({ process, session }) => `${process?.pid ?? 0} ${session ?? ''}`;

/** Returns the name of an agent for people: its client, or the command of its process. */
export const agentName = ({ client, process }) => client || process?.name || 'agent';

let turn = 0;

/** Loads the stopped agents. An older answer does not replace a newer one. */
export async function loadAgents() {
  const mine = ++turn;
  const { agents = [] } = await get('agents');
  if (mine !== turn) return;
  const stopped = agents.filter(({ stop }) => stop);
  stoppedAgents.set(stopped.sort((one, other) => one.stop.atMs - other.stop.atMs));
}

onChange((what) => what === 'agents' && loadAgents().catch(() => {}));

/** Returns the order that has stopped the agent of a call or session, if there is one. */
export function stopOf(stopped, agent) {
  const key = agentKey(agent);
  return stopped.find((other) => agentKey(other) === key)?.stop ?? null;
}
