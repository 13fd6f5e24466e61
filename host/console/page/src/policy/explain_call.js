/** The decision of the policy about an example call, which does not run. */
import { html, useEffect, useId, useState } from '../base/html.js';
import { post, useLoad } from '../base/api.js';
import { route } from '../base/router.js';
import { useStore } from '../base/store.js';
import { Decision, ErrorText } from '../parts/controls.js';
import { Reasons } from '../parts/reasons.js';
import { Framed, Name, Names } from '../parts/text.js';
import { checkArguments } from '../questions/edit_dialog.js';

const TYPING_MS = 350;

export function ExplainCall() {
  const { query } = useStore(route);
  const { data: known } = useLoad('tools', 'tools');
  const [tool, setTool] = useState(query.tool ?? 'exec');
  const [text, setText] = useState(query.tool && query.tool !== 'exec' ? '{}' : '{\n  "command": "git status"\n}');
  const [result, setResult] = useState({});
  const id = useId();
  const { value, fault } = checkArguments(text);
  useEffect(() => {
    if (fault || !tool.trim()) return;
    let isCurrent = true;
    const timer = setTimeout(async () => {
      try {
        const data = await post('policy/explain', { tool: tool.trim(), arguments: value });
        if (isCurrent) setResult({ data });
      } catch (error) {
        if (isCurrent) setResult({ error });
      }
    }, TYPING_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [tool, text]);
  const { data, error } = result;
  return html`
    <div class="two-columns">
      <section class="narrow-page">
        <h2>An example call</h2>
        <p class="faint">The call does not run. The answer changes as you type.</p>
        <label>Tool<input type="text" list=${id} spellcheck=${false} autocapitalize="off" class="code" value=${tool} onInput=${(event) => setTool(event.currentTarget.value)} /></label>
        <datalist id=${id}>${(known?.tools ?? []).map(({ name }) => html`<option key=${name} value=${name} />`)}</datalist>
        <label>Arguments as JSON<textarea class="code" rows="10" spellcheck=${false} autocapitalize="off" aria-invalid=${!!fault} value=${text} onInput=${(event) => setText(event.currentTarget.value)}></textarea></label>
        <p class="bad-text small" role="status">${fault ?? ''}</p>
      </section>
      <section class="narrow-page" aria-label="Decision" aria-live="polite">
        <h2>Decision ${data && html`<${Decision} decision=${data.decision} />`}</h2>
        <${ErrorText} error=${error} />
        ${data &&
        html`
          ${data.commands?.length > 0 &&
          html`<h3>Commands, one by one</h3>
            <ol class="commands">${data.commands.map(({ command, decision, why }, index) => html`<li key=${index}><${Decision} decision=${decision} /><div class="grow"><${Framed} text=${command} label=${`Command ${index + 1}`} />${why && html`<div class="small"><${Name} text=${why} max=${300} /></div>`}</div></li>`)}</ol>`}
          <h3>Rules that apply</h3>
          <${Reasons} reasons=${data.reasons} />
          ${data.wayOut?.length > 0 && html`<h3>To allow it without a question</h3><${Names} texts=${data.wayOut} />`}
        `}
      </section>
    </div>
  `;
}
