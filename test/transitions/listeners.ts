/** Counts the abort listeners on a signal, on every runtime: how many there are, and how many there were at most. */
export interface ListenerCount {
  (): number;
  most(): number;
}

export function countListeners(signal: AbortSignal): ListenerCount {
  const listeners = new Set<unknown>();
  const wrapped = new Map<unknown, () => void>();
  let most = 0;
  const { addEventListener, removeEventListener } = signal;
  Object.assign(signal, {
    addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }) {
      const counted = () => {
        if (options?.once) listeners.delete(listener);
        listener();
      };
      wrapped.set(listener, counted);
      listeners.add(listener);
      most = Math.max(most, listeners.size);
      addEventListener.call(signal, type, counted, options);
    },
    removeEventListener(type: "abort", listener: () => void) {
      listeners.delete(listener);
      removeEventListener.call(signal, type, wrapped.get(listener) ?? listener);
    },
  });
  return Object.assign(() => listeners.size, { most: () => most });
}
