/**
 * Full-text search with BM25, scored as Lucene scores it: k1 0.9, b 0.4, idf ln(1 + (N - n + 0.5) / (n + 0.5)), and lengths
 * of documents kept with four significant bits.
 *
 * In: the terms of each document. Out: for a query, the best documents with their scores, best first; of equals the earlier.
 * Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond".
 */

const K1 = 0.9;
const B = 0.4;

/** A document by its number, and how well it fits. */
interface Hit {
  readonly document: number;
  readonly score: number;
}

interface Postings {
  readonly documents: number[];
  readonly counts: number[];
}

/** Documents are added once and never change. */
export class SearchIndex {
  readonly #postings = new Map<string, Postings>();
  readonly #lengths: number[] = [];
  #numTerms = 0;

  /** Adds a document. Its number is how many were added before. */
  add(terms: readonly string[]): void {
    const document = this.#lengths.length;
    for (const [term, count] of countsOf(terms)) {
      const postings = this.#postings.get(term) ?? { documents: [], counts: [] };
      postings.documents.push(document);
      postings.counts.push(count);
      this.#postings.set(term, postings);
    }
    this.#lengths.push(storedLength(terms.length));
    this.#numTerms += terms.length;
  }

  search(terms: readonly string[], limit: number): Hit[] {
    const scores = new Map<number, number>();
    const meanLength = this.#numTerms / this.#lengths.length;
    for (const [term, weight] of countsOf(terms)) {
      const postings = this.#postings.get(term);
      if (postings === undefined) continue;
      const { documents, counts } = postings;
      const idf = Math.log(1 + (this.#lengths.length - documents.length + 0.5) / (documents.length + 0.5));
      documents.forEach((document, i) => {
        const saturation = K1 * (1 - B + (B * this.#lengths[document]!) / meanLength);
        const score = (weight * idf * counts[i]!) / (counts[i]! + saturation);
        scores.set(document, (scores.get(document) ?? 0) + score);
      });
    }
    const hits = Array.from(scores, ([document, score]) => ({ document, score }));
    return hits.sort((left, right) => right.score - left.score || left.document - right.document).slice(0, limit);
  }
}

function countsOf(terms: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const term of terms) counts.set(term, (counts.get(term) ?? 0) + 1);
  return counts;
}

/** Lucene keeps a length in one byte: exact below 24, above that the four leading bits of what is over 24. */
function storedLength(length: number): number {
  if (length < 24) return length;
  const shift = Math.max(0, 32 - Math.clz32(length - 24) - 4);
  return 24 + (((length - 24) >>> shift) << shift);
}
