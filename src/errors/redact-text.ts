/**
 * The second net under secrets: texts without the ones that are known, and without credentials in addresses.
 *
 * Values of type `Secret` never reach a text. What comes back from outside may hold one all the same, as where a server repeats the
 * key that it refuses. Everything here takes time in proportion to the text.
 */

/** Stands wherever a secret would. */
export const SECRET = "[secret]";

/** Shorter ones are no secrets worth the name, and would tear holes into texts. */
const MIN_LENGTH = 6;

/** Every secret that this process was given, in the forms in which it may turn up. The longest is looked for first. */
let known: readonly string[] = [];

/** A value that no text of this process may show from now on. */
export function remember(value: string): void {
  // The key of a header such as "Bearer abc" turns up alone as well.
  const words = [value, ...value.split(/\s+/)].filter(
    (word) => word.length >= MIN_LENGTH && !/^(Bearer|Basic)$/i.test(word),
  );
  const forms = words.flatMap((word) => [word, JSON.stringify(word).slice(1, -1), encodeURIComponent(word)]);
  known = [...new Set([...known, ...forms])].sort((a, b) => b.length - a.length);
}

/** The text without secrets. */
export function redactText(text: string): string {
  const plain = known.reduce((rest, value) => rest.replaceAll(value, SECRET), text);
  return hideCredentials(plain).replace(/([?&#;])([^=&?\s#;"]*)=([^&\s#;"]*)/g, (whole, mark: string, name: string) =>
    isSecretName(name) ? `${mark}${name}=${SECRET}` : whole,
  );
}

/** The text without what stands before a host, after two slashes or what a URL parser takes for them. A scheme may be left out, as in a redirect. */
export function hideCredentials(text: string): string {
  return text.replace(/(:[/\\]|[/\\]{2})[^\s/\\@"]*@/g, `$1${SECRET}@`);
}

/** Whether what goes by this name is a secret by the look of it. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name.replace(/[-_]/g, "").slice(-40));
}

const SECRET_NAME =
  /secret|(api|access|private|signing|auth|account)key$|^key$|(token|password|passwd|passphrase|credentials?|authorization|cookie|bearer|signature|sessionid)$/i;
