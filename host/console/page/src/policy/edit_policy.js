/** An edit of the settings: first as a diff, then applied. */
import { html, useState } from '../base/html.js';
import { post } from '../base/api.js';
import { announce } from '../base/notify.js';
import { isAdmin, session } from '../base/session.js';
import { emitChange, useStore } from '../base/store.js';
import { ErrorText, Loading } from '../parts/controls.js';
import { Diff } from '../parts/diff.js';
import { Names } from '../parts/text.js';
import { WhatIfResult } from '../record/what_if.js';
import { EditForm } from './edit_form.js';

const DAYS = 7;

export function EditPolicy() {
  const [edit, setEdit] = useState(null);
  return html`
    <div class="two-columns">
      <section class="narrow-page">
        <h2>Change a setting</h2>
        <p class="faint">Comments in the file stay. You see the change as a diff before it applies.</p>
        <${EditForm} action="Show the change" onEdit=${setEdit} />
      </section>
      <section class="narrow-page" aria-label="Change">${edit ? html`<h2>The change</h2><${Proposal} key=${JSON.stringify(edit)} edit=${edit} onDone=${() => setEdit(null)} />` : html`<p class="faint">The diff appears here.</p>`}</section>
    </div>
  `;
}

/** The diff of an edit, its effect on the record, and the button that applies it. */
export function Proposal({ edit, onDone }) {
  const person = useStore(session);
  const [proposal, setProposal] = useState(null);
  const [whatIf, setWhatIf] = useState({});
  const [error, setError] = useState(null);
  const [isApplied, setApplied] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const load = async () => {
    setError(null);
    setProposal(null);
    try {
      setProposal(await post('policy/propose', { edit }));
    } catch (fault) {
      setError(fault);
      return;
    }
    setWhatIf({ isBusy: true });
    post('policy/what-if', { edit, days: DAYS }).then(
      (data) => setWhatIf({ data }),
      (fault) => setWhatIf({ error: fault }),
    );
  };
  useState(() => void load());
  const apply = async () => {
    setBusy(true);
    setError(null);
    try {
      await post('policy/apply', { edit, digest: proposal.digest });
      setApplied(true);
      announce('The change applies now.');
      emitChange('policy');
    } catch (fault) {
      setError(fault);
    }
    setBusy(false);
  };
  const problems = proposal?.problems ?? [];
  return html`
    <${ErrorText} error=${error} onRetry=${load} />
    ${!proposal && !error && html`<${Loading} what="the diff" />`}
    ${problems.length > 0 && html`<div class="message bad"><p>It cannot be applied:</p><${Names} texts=${problems.map((problem) => (typeof problem === 'string' ? problem : (problem.text ?? JSON.stringify(problem))))} /></div>`}
    ${proposal && !problems.length &&
    html`
      <${Diff} files=${proposal.diff} />
      <h3>With it, in the last ${DAYS} days</h3>
      <${WhatIfResult} result=${whatIf} />
      ${isApplied
        ? html`<p class="message" role="status">Applied. <button class="link" onClick=${onDone}>Make another change</button></p>`
        : html`<div class="actions"><button onClick=${onDone}>Discard</button><button class="primary" disabled=${!isAdmin(person) || isBusy} onClick=${apply}>Apply to the file</button></div>`}
      ${!isAdmin(person) && html`<p class="faint small">Applying needs the role admin.</p>`}
    `}
  `;
}
