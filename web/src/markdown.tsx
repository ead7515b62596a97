import { Lexer, type Token, type Tokens } from 'marked';
import { memo, useMemo, type ReactNode } from 'react';
import { IconButton, copy } from './ui';
import { en } from './strings/en';

/** Markdown as React elements: no HTML of a model ever gets into the page. Only blocks that
 * changed are drawn again. */
export default function Markdown({ text, live }: { text: string; live?: boolean }) {
  const blocks = useMemo(() => new Lexer({ gfm: true }).lex(text), [text]);
  return (
    <div className={`md ${live ? 'live' : ''}`} aria-live="off">
      {blocks.map((b, i) => (
        <Block key={i} token={b} raw={b.raw} />
      ))}
    </div>
  );
}

const Block = memo(
  function Block({ token }: { token: Token; raw: string }) {
    return <>{block(token, 0)}</>;
  },
  (a, b) => a.raw === b.raw,
);

function block(t: Token, key: number): ReactNode {
  switch (t.type) {
    case 'paragraph':
      return <p key={key}>{inline(t.tokens)}</p>;
    case 'text':
      return <span key={key}>{t.tokens ? inline(t.tokens) : (t as Tokens.Text).text}</span>;
    case 'heading': {
      const Tag = `h${Math.min(4, (t as Tokens.Heading).depth + 1)}` as 'h3';
      return <Tag key={key}>{inline(t.tokens)}</Tag>;
    }
    case 'code':
      return <CodeBlock key={key} text={(t as Tokens.Code).text} />;
    case 'blockquote':
      return <blockquote key={key}>{t.tokens?.map(block)}</blockquote>;
    case 'list': {
      const l = t as Tokens.List;
      const items = l.items.map((item, i) => (
        <li key={i}>
          {item.task && <input type="checkbox" checked={item.checked} readOnly aria-label={en.common.done} />} {item.tokens.map(block)}
        </li>
      ));
      return l.ordered ? (
        <ol key={key} start={Number(l.start) || 1}>
          {items}
        </ol>
      ) : (
        <ul key={key}>{items}</ul>
      );
    }
    case 'table': {
      const table = t as Tokens.Table;
      return (
        <div key={key} className="tblw">
          <table>
            <thead>
              <tr>
                {table.header.map((c, i) => (
                  <th key={i}>{inline(c.tokens)}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {table.rows.map((r, i) => (
                <tr key={i}>
                  {r.map((c, j) => (
                    <td key={j}>{inline(c.tokens)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    }
    case 'hr':
      return <hr key={key} />;
    case 'space':
    case 'def':
      return null;
    case 'html':
      return <p key={key}>{t.raw}</p>;
  }
  return <span key={key}>{t.raw}</span>;
}

function inline(tokens: Token[] | undefined): ReactNode[] {
  return (tokens ?? []).map((t, i) => {
    switch (t.type) {
      case 'strong':
        return <b key={i}>{inline(t.tokens)}</b>;
      case 'em':
        return <em key={i}>{inline(t.tokens)}</em>;
      case 'del':
        return <del key={i}>{inline(t.tokens)}</del>;
      case 'codespan':
        return <code key={i}>{(t as Tokens.Codespan).text}</code>;
      case 'br':
        return <br key={i} />;
      case 'link': {
        const href = (t as Tokens.Link).href;
        if (!/^(https?:|mailto:)/i.test(href)) return <span key={i}>{inline(t.tokens)}</span>;
        return (
          <a key={i} href={href} target="_blank" rel="noopener noreferrer nofollow">
            {inline(t.tokens)}
          </a>
        );
      }
      case 'image':
        // A picture elsewhere would tell its server who reads this.
        return (
          <a key={i} href={/^https?:/i.test((t as Tokens.Image).href) ? (t as Tokens.Image).href : undefined} target="_blank" rel="noopener noreferrer nofollow">
            {(t as Tokens.Image).text || (t as Tokens.Image).href}
          </a>
        );
      case 'escape':
      case 'text':
        return t.type === 'text' && t.tokens ? <span key={i}>{inline(t.tokens)}</span> : unescaped((t as Tokens.Text).text);
    }
    return t.raw;
  });
}

function unescaped(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&amp;', '&');
}

function CodeBlock({ text }: { text: string }) {
  return (
    <div className="codew">
      <pre className="code" tabIndex={0}>
        {text}
      </pre>
      <div className="codea">
        <IconButton small icon="copy" label={en.common.copy} onClick={() => void copy(text)} />
      </div>
    </div>
  );
}
