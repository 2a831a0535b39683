/** Imported to learn what importing costs by itself. */
export {};
