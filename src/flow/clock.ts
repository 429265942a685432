/** Time, passed in: milliseconds that only grow. Stages never read the machine's clock themselves. */
export type Clock = () => number;
