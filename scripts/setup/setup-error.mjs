/** A problem the user can act on. The setup prints its message alone, without a stack. */
export class SetupError extends Error {
  constructor(message) {
    super(message);
    this.name = "SetupError";
  }
}
