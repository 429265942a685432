/** What a warning means: its part of the guide to runs, which is built in. */
import guide from "../../../docs/guides/runs.md?raw";

export function HelpView({ code }: { readonly code: string }) {
  const text = sectionOf(code);
  return (
    <div class="page prose">
      <h1>{code}</h1>
      {text === undefined ? (
        <p>The guide says nothing about this. See docs/guides/runs.md.</p>
      ) : (
        text.split(/\n\n+/).map((paragraph) => <p key={paragraph}>{withCode(paragraph)}</p>)
      )}
      <button type="button" onClick={() => history.back()}>
        Back
      </button>
    </div>
  );
}

function sectionOf(code: string): string | undefined {
  const parts = guide.split(/^### /m).slice(1);
  return parts
    .find((part) => part.startsWith(`${code}\n`))
    ?.slice(code.length)
    .split(/^#/m)[0]
    ?.trim();
}

/** Text between backquotes is code; there is no other markup in that part. */
function withCode(paragraph: string) {
  return paragraph.split("`").map((part, i) => (i % 2 === 1 ? <code key={`${i} ${part}`}>{part}</code> : part));
}
