package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// otherNumbers refuses the calls of x32, which are the same with a bit set.
func (p *program) otherNumbers() {
	p.load(atNumber)
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: 0x40000000})
	p.answer(unmade)
}
