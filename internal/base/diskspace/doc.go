// Package diskspace says how much room a disk has.
package diskspace
