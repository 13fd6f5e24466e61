/** A list of any length of which only the rows in sight are rendered. */
import { html, useId, useLayoutEffect, useRef, useState } from '../base/html.js';

const SPARE = 8;

/**
 * @param {{
 *   rows: { id: string, depth?: number }[], rowHeight: number, label: string, role: 'tree' | 'listbox',
 *   selected: string | null, onSelect: (id: string) => void, onOpen?: (id: string) => void,
 *   onNearEnd?: () => void, onPointed?: (isPointed: boolean) => void, onKey?: (event: KeyboardEvent) => void, render: (row: object) => object,
 *   rowProps?: (row: object) => object,
 * }} props
 *   The newest rows are at the top: a list that is scrolled away from the top keeps its rows in place while new ones
 *   arrive.
 */
export function VirtualList({ rows, rowHeight, label, role, selected, onSelect, onOpen, onNearEnd, onPointed, onKey, render, rowProps }) {
  const id = useId();
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const anchor = useRef(null);

  useLayoutEffect(() => {
    const element = box.current;
    const measure = () => setView((old) => (old.height === element.clientHeight ? old : { ...old, height: element.clientHeight }));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  // Keeps the first row in sight where it is when rows are added above it.
  useLayoutEffect(() => {
    const element = box.current;
    if (anchor.current && element.scrollTop > rowHeight) {
      const index = rows.findIndex((row) => row.id === anchor.current.id);
      const top = index * rowHeight + anchor.current.offset;
      if (index >= 0 && Math.abs(top - element.scrollTop) >= 1) {
        element.scrollTop = top;
        setView((old) => ({ ...old, top }));
      }
    }
    remember();
  }, [rows]);

  const index = rows.findIndex((row) => row.id === selected);
  useLayoutEffect(() => {
    const element = box.current;
    if (index < 0) return;
    const top = index * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight;
  }, [selected]);

  function remember() {
    const element = box.current;
    const first = Math.floor(element.scrollTop / rowHeight);
    anchor.current = rows[first] ? { id: rows[first].id, offset: element.scrollTop - first * rowHeight } : null;
  }

  function scrolled(event) {
    const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
    remember();
    setView((old) => ({ ...old, top: scrollTop }));
    if (scrollTop + 2 * clientHeight > scrollHeight) onNearEnd?.();
  }

  const page = Math.max(1, Math.floor(view.height / rowHeight) - 1);
  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const move = moves[event.key];
    if (move !== undefined && rows.length) {
      event.preventDefault();
      const next = Math.min(rows.length - 1, Math.max(0, (index < 0 ? (move > 0 ? -1 : 0) : index) + move));
      onSelect(rows[next].id);
    } else if (event.key === 'Enter' && index >= 0) {
      event.preventDefault();
      (onOpen ?? onSelect)(selected);
    } else onKey?.(event);
  }

  const first = Math.max(0, Math.min(rows.length - 1, Math.floor(view.top / rowHeight) - SPARE));
  const shown = rows.slice(first, first + Math.ceil(view.height / rowHeight) + 2 * SPARE);
  const isRendered = index >= first && index < first + shown.length;
  const option = role === 'tree' ? 'treeitem' : 'option';
  return html`
    <div
      class="rows"
      ref=${box}
      role=${role}
      tabindex="0"
      aria-label=${label}
      aria-activedescendant=${isRendered ? `${id}-${selected}` : undefined}
      onScroll=${scrolled}
      onPointerEnter=${onPointed && (({ pointerType }) => pointerType === 'mouse' && onPointed(true))}
      onPointerLeave=${onPointed && (() => onPointed(false))}
      onKeyDown=${pressed}
    >
      <div role="presentation" class="rows-space" style=${{ height: `${rows.length * rowHeight}px` }}>
        ${shown.map(
          (row, offset) => html`
            <div
              key=${row.id}
              id=${`${id}-${row.id}`}
              role=${option}
              class=${row.id === selected ? 'row selected' : 'row'}
              aria-selected=${row.id === selected}
              aria-level=${role === 'tree' ? (row.depth ?? 0) + 1 : undefined}
              aria-posinset=${role === 'listbox' ? first + offset + 1 : undefined}
              aria-setsize=${role === 'listbox' ? rows.length : undefined}
              style=${{ transform: `translateY(${(first + offset) * rowHeight}px)`, height: `${rowHeight}px` }}
              onClick=${() => (onOpen ?? onSelect)(row.id)}
              ...${rowProps?.(row)}
            >
              ${render(row)}
            </div>
          `,
        )}
      </div>
    </div>
  `;
}
