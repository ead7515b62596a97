package notification

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// Routes returns the operations on notifications.
func (s *Service) Routes() []route.Route {
	read := func(path, id, summary, doc string) route.Row {
		return route.Row{
			Method: "GET", Path: "/api/v1/notifications" + path, ID: id, Tag: "Notifications", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"notifications:read"}, Role: authz.Viewer,
		}
	}
	write := func(method, path, id, summary, doc string) route.Row {
		return route.Row{
			Method: method, Path: "/api/v1/notifications" + path, ID: id, Tag: "Notifications", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"notifications:write"}, Role: authz.Developer,
		}
	}
	list := read("", "listNotifications", "List your notifications, newest first",
		"Includes those for everyone. There is no second page: mark notifications as read, or delete them.")
	list.Errors = []int{400}
	all := write("DELETE", "", "bulkDeleteNotifications", "Delete all your notifications, or those that are read", "")
	all.Errors = []int{400}
	prefs := write("PUT", "/prefs", "setNotificationPrefs", "Set your notification preferences",
		"Replaces all preferences: fields that are left out return to their defaults.")
	current := read("/prefs", "getNotificationPrefs", "Get your notification preferences", "")
	current.Conditional, prefs.Conditional = true, true
	link := func(method, path, id, summary string) route.Row {
		r := route.Row{
			Method: method, Path: path, ID: id, Tag: "Notifications", Summary: summary, Public: true, Refused: "notification_target.link_refused",
			Errors: []int{404}, Limits: linkLimits,
			Doc: "The link of an email leads here; the token in it authorizes. The response is a page for people.",
		}
		if method == "POST" {
			r.MaxBytes = 4 << 10
		}
		return r
	}
	target := write("POST", "/targets", "createNotificationTarget", "Create a notification target",
		"An email address or a webhook, used if the preferences name that channel. An address gets one letter, and nothing more until "+
			"its owner confirms by the link in it, unless it is the verified address of your account. "+
			"A signing secret that is generated for a webhook is shown in this response only.")
	target.Status, target.Fresh, target.Errors, target.Limits = 201, true, []int{409, 429, 501}, linkLimits
	test := write(
		"POST", "/targets/{targetId}/test", "testNotificationTarget", "Send a test notification to a target", "Responds once it is queued.",
	)
	test.Errors, test.Limits = []int{409}, linkLimits
	follow := read("/stream", "streamNotifications", "Stream your notifications",
		"Server-sent events: an event `ready`, then an event `notification` for each. "+
			"Last-Event-ID resumes right after a notification.")
	follow.Events = &events
	return []route.Route{
		route.Action(current, s.prefs),
		route.Action(prefs, s.setPrefs),
		route.Action(read("/targets", "listNotificationTargets", "List your notification targets", "Secrets are left out."), s.targets),
		route.Action(target, s.createTarget),
		route.Action(write("DELETE", "/targets/{targetId}", "deleteNotificationTarget", "Delete a notification target", ""), s.deleteTarget),
		route.Action(test, s.testTarget),
		route.Action(list, s.list),
		route.Action(all, s.clear),
		route.Action(read("/unread", "getUnreadCount", "Count your unread notifications", ""), s.unread),
		route.Action(write("PUT", "/read-all", "markAllNotificationsRead", "Mark all your notifications as read", ""), s.readAll),
		route.Action(write(
			"PUT", "/{notificationId}/read", "markNotificationRead", "Mark a notification as read", "Succeeds also if it does not exist.",
		), s.markRead),
		route.Action(write(
			"DELETE", "/{notificationId}", "deleteNotification", "Delete a notification", "Succeeds also if it does not exist.",
		), s.remove),
		route.Stream(follow, s.follow),
		route.Action(link("GET", confirmPath, "showNotificationConfirmation", "Show the page of a confirmation letter"),
			s.mailing().askToConfirm),
		route.Action(link("POST", confirmPath, "confirmNotificationTarget", "Confirm that an address wants notifications"),
			s.mailing().confirm),
		route.Action(link("GET", unsubscribePath, "showNotificationUnsubscribe", "Show the page to unsubscribe an address"),
			s.mailing().askToUnsubscribe),
		route.Action(link("POST", unsubscribePath, "unsubscribeNotifications", "Unsubscribe an address, with one click (RFC 8058)"),
			s.mailing().unsubscribe),
	}
}

// linkLimits bound what emails cost others, and guesses at their links.
var linkLimits = []route.Limit{{N: 30, Per: time.Minute}}

type listIn struct {
	Filter

	Limit string `query:"limit" doc:"Maximum number, 1 to 100; default 20."`
}

// Notifications per response.
const (
	defaultPage = 20
	maxPage     = 100
)

type notificationList struct {
	_ struct{} `json:"-" name:"NotificationList"`

	Notifications []Notification `json:"notifications" required:"true"`
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (l notificationList, err error) {
	l.Notifications, err = s.Store.List(ctx, who.TenantID, who.UserID, in.Filter, page.Limit(in.Limit, defaultPage, maxPage))
	return l, err
}

type nothing struct{}

type unreadCount struct {
	_ struct{} `json:"-" name:"NotificationUnreadCount"`

	UnreadCount int `json:"unread_count" required:"true"`
	Count       int `json:"count" required:"true" doc:"The same as unread_count."`

	TotalIsLowerBound bool `json:"total_is_lower_bound,omitzero" doc:"Whether there are more than the 1,000 that are counted."`
}

// countUnread counts up to page.MaxCount, and reports whether there are more.
func (s *Service) countUnread(ctx context.Context, who authz.Caller) (n int, more bool, err error) {
	n, err = s.Store.CountUnread(ctx, who.TenantID, who.UserID, page.MaxCount+1)
	return min(n, page.MaxCount), n > page.MaxCount, err
}

// CountUnread returns how many notifications a member has not read, as getUnreadCount
// answers it.
func (s *Service) CountUnread(ctx context.Context, tenant, user string) (any, error) {
	return s.unread(ctx, authz.Caller{TenantID: tenant, UserID: user}, nil)
}

func (s *Service) unread(ctx context.Context, who authz.Caller, _ *nothing) (unreadCount, error) {
	n, more, err := s.countUnread(ctx, who)
	return unreadCount{UnreadCount: n, Count: n, TotalIsLowerBound: more}, err
}

type marked struct {
	_ struct{} `json:"-" name:"NotificationsMarked"`

	Marked int `json:"marked" required:"true" doc:"How many were unread before."`
}

func (s *Service) readAll(ctx context.Context, who authz.Caller, _ *nothing) (marked, error) {
	return answer(ctx, s.Writer, func(tx txn.Tx) (marked, error) {
		n, err := s.Store.MarkReadTx(tx, who.TenantID, who.UserID, "", s.Clock.Now())
		s.changed(tx, Change{TenantID: who.TenantID, Op: "updated"})
		return marked{Marked: n}, err
	})
}

type oneIn struct {
	NotificationID string `path:"notificationId"`
}

type done struct {
	_ struct{} `json:"-" name:"NotificationDone"`

	OK bool `json:"ok" required:"true"`
}

func (s *Service) markRead(ctx context.Context, who authz.Caller, in *oneIn) (done, error) {
	return answer(ctx, s.Writer, func(tx txn.Tx) (done, error) {
		n, err := s.Store.MarkReadTx(tx, who.TenantID, who.UserID, in.NotificationID, s.Clock.Now())
		if n > 0 {
			s.changed(tx, Change{TenantID: who.TenantID, Op: "updated"})
		}
		return done{OK: true}, err
	})
}

func (s *Service) remove(ctx context.Context, who authz.Caller, in *oneIn) (done, error) {
	return answer(ctx, s.Writer, func(tx txn.Tx) (done, error) {
		n, err := s.Store.DeleteTx(tx, who.TenantID, who.UserID, in.NotificationID, false)
		if n > 0 {
			s.changed(tx, Change{TenantID: who.TenantID, Op: "deleted"})
		}
		return done{OK: true}, err
	})
}

type clearIn struct {
	Scope string `query:"scope" default:"all" doc:"read deletes only those that are read; all, the default, deletes everything."`
}

type cleared struct {
	_ struct{} `json:"-" name:"NotificationsDeleted"`

	Deleted int    `json:"deleted" required:"true"`
	Scope   string `json:"scope" enum:"read,all" required:"true"`
}

func (s *Service) clear(ctx context.Context, who authz.Caller, in *clearIn) (cleared, error) {
	if in.Scope != "read" && in.Scope != "all" {
		return cleared{}, fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter scope must be read or all.")
	}
	return answer(ctx, s.Writer, func(tx txn.Tx) (cleared, error) {
		n, err := s.Store.DeleteTx(tx, who.TenantID, who.UserID, "", in.Scope == "read")
		s.changed(tx, Change{TenantID: who.TenantID, Op: "deleted"})
		return cleared{Deleted: n, Scope: in.Scope}, err
	})
}
