package feed

import "context"

// ReadPage is read, for tests.
func (s *Service) ReadPage(ctx context.Context, tenant string, q Query, before Position) ([]Entry, Position, error) {
	c, err := s.read(ctx, tenant, q, before)
	if err != nil {
		return nil, Position{}, err
	}
	return c.entries, c.next, nil
}
