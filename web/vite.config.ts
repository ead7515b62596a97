import react from '@vitejs/plugin-react';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

// Everything is relative to the <base> that the server writes, so that one build fits every path prefix.
export default defineConfig({
  base: './',
  plugins: [react()],
  resolve: { alias: { agentd: fileURLToPath(new URL('../clients/typescript/src/index.ts', import.meta.url)) }, dedupe: ['openapi-fetch'] },
  build: {
    outDir: 'dist',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    chunkSizeWarningLimit: 600,
    sourcemap: false,
  },
  server: { proxy: { '/api': 'http://127.0.0.1:8080', '/v1': 'http://127.0.0.1:8080', '/signin': 'http://127.0.0.1:8080' } },
});
