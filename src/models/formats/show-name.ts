/**
 * Writes a name from a file into an error message: quoted, control characters escaped, and cut at 120 characters,
 * so that a hostile file cannot fill the terminal.
 */
export function showName(name: string): string {
  return JSON.stringify(name.length > maxShown ? `${name.slice(0, maxShown)}...` : name);
}

const maxShown = 120;
