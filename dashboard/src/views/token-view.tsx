/** Every token, colored by one of its numbers, with all of them for the one that is pointed at. */

import { Fragment } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TrajectoryAnswer } from "../../../src/dashboard/answers.ts";
import { number, signed } from "../format.ts";
import { FactList } from "../parts/fact-list.tsx";
import { tokenColorings } from "../tokens/token-colors.ts";
import { listTokens, type Token, turnHeads, worstToken } from "../tokens/token-list.ts";

/** Tokens that are laid out together: those far away cost nothing. */
const BLOCK = 400;

export function TokenView({ answer }: { readonly answer: TrajectoryAnswer }) {
  const tokens = useMemo(() => listTokens(answer), [answer]);
  const heads = useMemo(() => turnHeads(answer), [answer]);
  const [coloringName, setColoringName] = useState("log-prob");
  const [selected, setSelected] = useState(-1);
  const [hovered, setHovered] = useState(-1);
  const box = useRef<HTMLDivElement>(null);
  const coloring = tokenColorings.find(({ name }) => name === coloringName)!;
  const isKnown = (name: string) => {
    const { value } = tokenColorings.find((one) => one.name === name)!;
    return tokens.some((token) => value(token) !== null);
  };
  const mismatch = worstToken(tokens, ({ ratio }) => (ratio === null ? null : Math.abs(Math.log(ratio))));
  const unlikely = worstToken(tokens, ({ logprob }) => (logprob === null ? null : -logprob));
  useEffect(() => {
    box.current?.querySelector(`[data-token="${selected}"]`)?.scrollIntoView({ block: "nearest" });
  }, [selected]);
  const shown = tokens[hovered === -1 ? selected : hovered];
  return (
    <>
      <div class="tools" role="toolbar" aria-label="Tokens">
        <label>
          color
          <select value={coloringName} onChange={(event) => setColoringName(event.currentTarget.value)}>
            {tokenColorings.map(({ name }) => (
              <option key={name} value={name} disabled={!isKnown(name)}>
                {name}
                {isKnown(name) ? "" : " (not recorded)"}
              </option>
            ))}
          </select>
        </label>
        <button
          type="button"
          disabled={mismatch === -1}
          title={mismatch === -1 ? "The run recorded no log-probs of the policy." : "The ratio furthest from 1"}
          onClick={() => setSelected(mismatch)}
        >
          Worst mismatch
        </button>
        <button type="button" disabled={unlikely === -1} onClick={() => setSelected(unlikely)}>
          Least likely
        </button>
        <small class="muted">{coloring.legend}</small>
      </div>
      {answer.texts === null && (
        <p class="muted">The run's folder holds no tokenizer that can be read, so tokens are shown as numbers.</p>
      )}
      <div
        ref={box}
        class="tokens"
        role="application"
        aria-label="Tokens. Arrow keys move from one to the next."
        // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move the selection.
        tabIndex={0}
        onKeyDown={(event) => {
          const move = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
          if (move === undefined) return;
          event.preventDefault();
          setHovered(-1);
          setSelected(Math.max(0, Math.min(tokens.length - 1, selected + move)));
        }}
        onMouseOver={(event) => setHovered(tokenOf(event.target))}
        onFocus={() => setHovered(-1)}
        onMouseLeave={() => setHovered(-1)}
        onClick={(event) => setSelected(tokenOf(event.target))}
      >
        <Blocks {...{ tokens, heads, coloringName, selected }} />
      </div>
      <TokenNumbers token={shown} />
    </>
  );
}

interface BlocksProps {
  readonly tokens: readonly Token[];
  /** Of each turn. */
  readonly heads: readonly string[];
  readonly coloringName: string;
  readonly selected: number;
}

function Blocks({ tokens, heads, coloringName, selected }: BlocksProps) {
  const blocks = useMemo(() => {
    const { value, color } = tokenColorings.find(({ name }) => name === coloringName)!;
    const largest = tokens.reduce((most, token) => Math.max(most, Math.abs(value(token) ?? 0)), 1e-9);
    const spans = tokens.map((token, i) => {
      const known = value(token);
      const head = tokens[i - 1]?.turn === token.turn ? undefined : heads[token.turn];
      const classes = token.isReply ? "token reply" : "token";
      return {
        i,
        head,
        classes,
        text: visible(token.text),
        color: known === null ? "transparent" : color(known, largest),
      };
    });
    return Array.from({ length: Math.ceil(spans.length / BLOCK) }, (_, i) => spans.slice(i * BLOCK, (i + 1) * BLOCK));
  }, [tokens, heads, coloringName]);
  return (
    <>
      {blocks.map((block) => (
        <div class="token-block" key={block[0]?.i}>
          {block.map(({ i, head, classes, text, color }) => (
            <Fragment key={i}>
              {head !== undefined && <span class="turn-head">{head}</span>}
              <span
                data-token={i}
                class={i === selected ? `${classes} selected` : classes}
                style={{ background: color }}
              >
                {text}
              </span>
            </Fragment>
          ))}
        </div>
      ))}
    </>
  );
}

function TokenNumbers({ token }: { readonly token: Token | undefined }) {
  if (token === undefined) return <p class="token-numbers muted">Point at a token to see its numbers.</p>;
  const facts: readonly (readonly [string, string])[] = [
    ["token", JSON.stringify(token.text)],
    ["id", String(token.id)],
    ["turn", String(token.turn + 1)],
    ["log-prob", number(token.logprob)],
    ["probability", token.logprob === null ? "–" : number(Math.exp(token.logprob))],
    ["policy log-prob", number(token.policyLogprob)],
    ["ratio", number(token.ratio)],
    ["entropy", number(token.entropy)],
    ["advantage", signed(token.advantage)],
    ["loss", token.isLoss ? "counts" : "no"],
    ["version", token.version === null ? "–" : String(token.version)],
  ];
  return (
    <dl class="token-numbers facts" aria-live="polite">
      <FactList facts={facts} />
    </dl>
  );
}

/** Line ends stay line ends; a token without a text is still there to point at. */
function visible(text: string): string {
  return text === "" ? "·" : text.replaceAll("\n", "↵\n");
}

function tokenOf(target: EventTarget | null): number {
  const index = target instanceof HTMLElement ? target.dataset.token : undefined;
  return index === undefined ? -1 : Number(index);
}
