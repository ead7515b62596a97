package schedule

// KeepOnChange makes a service treat a field of Config as one that does not
// restart the schedule, whatever its tag says.
func (s *Service) KeepOnChange(reset func(*Config)) {
	s.differs = func(old, now *Config) bool {
		a, b := *old, *now
		reset(&a)
		reset(&b)
		return differs(&a, &b)
	}
}

// RestartTag is the tag that every field of Config has.
const RestartTag = restartTag
