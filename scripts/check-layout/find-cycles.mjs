/**
 * Finds cycles in a graph, given as a Map from each node to a list of nodes.
 *
 * Out: cycles as lists of nodes, for each node in one the shortest through it; a node of a reported cycle starts no other.
 */
export function findCycles(graph) {
  const reported = new Set();
  const cycles = [];
  for (const start of [...graph.keys()].sort()) {
    const cycle = reported.has(start) ? null : shortestCycle(graph, start);
    if (cycle === null) continue;
    for (const node of cycle) reported.add(node);
    cycles.push(cycle);
  }
  return cycles;
}

/** Breadth first from a node back to itself. */
function shortestCycle(graph, start) {
  const cameFrom = new Map();
  const queue = [start];
  for (const node of queue) {
    for (const next of graph.get(node) ?? []) {
      if (next === start) return pathTo(node, cameFrom, start);
      if (cameFrom.has(next)) continue;
      cameFrom.set(next, node);
      queue.push(next);
    }
  }
  return null;
}

function pathTo(node, cameFrom, start) {
  return node === start ? [start] : [...pathTo(cameFrom.get(node), cameFrom, start), node];
}
