import { QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Router } from 'wouter';
import { prefix, queries } from './api';
import { Shell } from './shell';
import './styles/app.css';
import './styles/console.css';

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Router base={prefix}>
        <Shell />
      </Router>
    </QueryClientProvider>
  </StrictMode>,
);
