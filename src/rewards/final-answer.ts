/** The part of a reply that is meant for the reader: what comes after the thoughts. */

/**
 * The text after the last `</think>`; the whole reply where there is none. Thoughts that were opened and never closed are
 * no answer: the result is then empty.
 */
export function finalAnswer(reply: string): string {
  const end = reply.lastIndexOf("</think>");
  if (end !== -1) return reply.slice(end + "</think>".length);
  return reply.trimStart().startsWith("<think>") ? "" : reply;
}
