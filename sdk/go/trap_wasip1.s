#include "textflag.h"

// func trap() ends the call with a trap.
TEXT ·trap(SB), NOSPLIT, $0-0
	Unreachable
	RET
