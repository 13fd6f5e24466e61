/** The limits of a screen in a cluster, where other processes run calls. */
import { html } from '../base/html.js';
import { plural } from '../base/format.js';
import { session } from '../base/session.js';
import { useStore } from '../base/store.js';

const WORKERS = {
  tools: 'These are the tools and files of this server. Calls run on workers, with the tools of their workspace, which come with mimir cluster publish.',
  policy: 'These are the files of this server. Calls run on workers, whose rules decide. The settings of all nodes come with mimir cluster publish, and so do the bundles of teams.',
  undo: 'These are changes in the folder of this server. Workers keep the changes that they make: the story of a call in the record says where.',
};

/** The note of a screen, if calls run elsewhere. */
export function ClusterNote({ about }) {
  const cluster = useStore(session)?.cluster;
  const servers = cluster?.otherServers ?? 0;
  if (about === 'live') {
    return servers > 0 && html`<p class="footnote faint">Calls of this server. ${servers === 1 ? 'Another server of the cluster has' : `${plural(servers, 'other server')} of the cluster have`} their own; the record has all of them once they end.</p>`;
  }
  return cluster?.pool && html`<p class="message info slim">${WORKERS[about]}</p>`;
}
