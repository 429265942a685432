/**
 * A list of any length of which only what is seen is there.
 *
 * In: the number of rows and how to draw one. Out: a scroll box. All rows have one height.
 */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

interface VirtualListProps {
  readonly numRows: number;
  readonly rowHeight: number;
  readonly label: string;
  readonly renderRow: (index: number) => ComponentChildren;
  /** Told which rows are seen, from the first to before the last. */
  readonly onRange?: (first: number, last: number) => void;
}

/** Rows beyond the edges, so that the keyboard and fast scrolling find some. */
const OVERSCAN = 8;

export function VirtualList({ numRows, rowHeight, label, renderRow, onRange }: VirtualListProps) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const element = box.current!;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, []);
  const first = Math.max(0, Math.floor(view.top / rowHeight) - OVERSCAN);
  const last = Math.min(numRows, Math.ceil((view.top + view.height) / rowHeight) + OVERSCAN);
  useLayoutEffect(() => onRange?.(first, last), [first, last, onRange]);
  const rows = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  return (
    <div class="virtual" ref={box}>
      <ul class="virtual-space" aria-label={label} style={{ height: `${numRows * rowHeight}px` }}>
        {rows.map((index) => (
          <li
            key={index}
            aria-setsize={numRows}
            aria-posinset={index + 1}
            class="virtual-row"
            style={{ height: `${rowHeight}px`, transform: `translateY(${index * rowHeight}px)` }}
          >
            {renderRow(index)}
          </li>
        ))}
      </ul>
    </div>
  );
}
